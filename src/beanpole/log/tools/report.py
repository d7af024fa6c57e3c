"""What the tools report, as plain dictionaries: the command line prints them as JSON or makes sentences of them."""

import base64
from dataclasses import asdict
from typing import Any

from beanpole.log.files.names import is_spare
from beanpole.log.format import Kind
from beanpole.log.tools.inspect import KIND_NAMES, Check, Line, Survey, empty_replay, schedule_count, survey, text_of
from beanpole.log.tools.salvage import Salvaged
from beanpole.log.tools.snapshot import Snapshot

Report = dict[str, Any]


def of_findings(result: Survey) -> list[Report]:
    return [asdict(each) for each in result.findings]


def of_check(result: Check) -> Report:
    return {
        "damaged": result.survey.damaged,
        "start": result.outcome,
        "reason": result.reason or None,
        "in_use_by": result.holder,
        "segments": len(result.survey.segments),
        "bytes": sum(each.size_bytes for each in result.survey.segments),
        "records": sum(sum(each.counts) for each in result.survey.segments),
        "jobs": None if result.outcome == "refuses" else result.job_count,
        "schedules": None if result.outcome == "refuses" else result.schedule_count,
        "repairs": result.notes,
        "problems": of_findings(result.survey),
    }


def of_record(line: Line, *, bodies: bool) -> Report:
    """Return what a record says; without a kind, where something lies that is none."""
    report: Report = {"segment": line.segment.number, "offset": line.offset, "bytes": line.size}
    if line.kind is None:
        return report | {"kind": "damage"}
    report["kind"] = KIND_NAMES.get(line.kind, f"kind {line.kind}")
    for name, value in line.fields.items():
        report[name] = text_of(value) if isinstance(value, bytes) else value
    if bodies and line.body is not None:
        what = "document" if line.kind == Kind.SCHEDULE else "body"
        try:
            report[what] = line.body.decode()
        except UnicodeDecodeError:
            report[f"{what}_base64"] = base64.b64encode(line.body).decode()
    return report


def of_stat(snapshot: Snapshot) -> Report:
    """Read a log and return what it holds, segment by segment and in all."""
    replay = empty_replay()
    result = survey(snapshot, replay=replay)
    engine = replay.restore.engine
    jobs = [0] * (len(result.segments) + 1)
    for job in engine.jobs.jobs():
        jobs[job.segment] += 1
    segments: list[Report] = [
        {
            "name": segment.name,
            "bytes": segment.size_bytes,
            "used_bytes": segment.used_bytes,
            "live_jobs": jobs[i],
            "live_bytes": replay.records.accounts.live_in(i),
            "sealed": segment.ended,
            "records": segment.records,
        }
        for i, segment in enumerate(result.segments, 1)
    ]
    spares = [size for name, size in snapshot.sizes.items() if is_spare(name)]
    live_bytes = replay.records.accounts.live_bytes
    return {
        "damaged": result.damaged,
        "in_use_by": snapshot.holder,
        "segments": segments,
        "spares": len(spares),
        "bytes": sum(snapshot.sizes.values()),
        "used_bytes": sum(segment.used_bytes for segment in result.segments),
        "live_bytes": live_bytes,
        "bytes_per_live_byte": round(sum(snapshot.sizes.values()) / live_bytes, 3) if live_bytes else None,
        "jobs": engine.jobs.count,
        "schedules": schedule_count(engine),
        "records": {kind: sum(segment["records"][kind] for segment in segments) for kind in KIND_NAMES.values()},
        "durable_segment": replay.durable_segment,
        "durable_bytes": replay.durable_bytes,
        "last_time_ns": replay.restore.clock_ns,
        "next_job_id": engine.next_job_id,
        "shard": list(engine.shard),
        "problems": of_findings(result),
    }


def of_salvage(result: Salvaged, *, dry_run: bool) -> Report:
    return {
        "needed": result.needed,
        "done": result.kept_in is not None,
        "dry_run": dry_run,
        "jobs": result.job_count,
        "schedules": result.schedule_count,
        "live_bytes": result.live_bytes,
        "lost_bytes": result.lost_bytes,
        "lost_jobs": result.lost_ids,
        "lost_schedules": [text_of(each) for each in result.lost_schedules],
        "next_job_id": result.next_job_id,
        "segments": result.segments,
        "kept_in": str(result.kept_in) if result.kept_in is not None else None,
        "problems": of_findings(result.survey),
    }
