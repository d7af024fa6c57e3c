"""Groups in the reference model: whose job is next, by looking at every job of a tube."""

# ruff: noqa: ARG002 - every command gets the session, whether it needs it or not

from collections import Counter
from typing import Any

from tests.model.bookkeeping import STATES, Thing, listed, seconds
from tests.model.rules import Rules

SHARES_PER_JOB = 1000


class Groups(Rules):
    """Who has begun, and who was served last."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.served: dict[str, dict[str, int]] = {}
        """Tube that has groups: of each of these that has jobs, when it was served, as a number that grows."""

        self.begun: dict[tuple[str, str], int] = {}
        """Tube and group, where the order is strict: the job that was handed out and has not ended."""

        self.served_count = 0

    def rule_of_groups(self, tube: str, name: str) -> list[str]:
        """The words of a rule of a tube; empty: it has none."""
        return self.rules_of(tube).get(name, "").split()

    def has_group_rules(self, tube: str) -> bool:
        return "fair" in self.rule_of_groups(tube, "groups") or any(
            name.startswith("group-") for name in self.rules_of(tube)
        )

    def is_strict(self, tube: str) -> bool:
        return bool(self.rule_of_groups(tube, "group-order"))

    def of_group(self, tube: str, group: str, *states: str) -> list[Thing]:
        """The jobs that are counted in a group, in some states or in any."""
        return [job for job in self.jobs.values() if job.place == (tube, group) and (not states or job.state in states)]

    def split(self, tube: str, group: str | None) -> tuple[str, str]:
        """The tube and the group of a job that is put into a tube."""
        before, _, behind = tube.partition(";")
        if group is None and before and behind and "split" in self.rule_of_groups(tube, "groups"):
            return before, behind
        return tube, group or ""

    def is_group_full(self, tube: str, group: str) -> bool:
        waiting = self.of_group(tube, group, "ready", "delayed")
        return len(waiting) >= int(self.rules_of(tube).get("group-jobs-max", 1 << 62))

    # --- coming and going ---

    def line_up(self, job: Thing, state: str) -> None:
        """A job comes into a state, perhaps in another tube."""
        place = (job.tube, job.group)
        if job.place and (state == "deleted" or job.place != place):
            self.end_in_group(job)
        if state == "deleted":
            return
        job.place, (tube, group) = place, place
        if group and tube not in self.served:
            self.open_groups(tube, but=job)
        if tube not in self.served:
            return
        if group not in self.served[tube] or state == "reserved":
            self.served_count += 1
            self.served[tube][group] = self.served_count
        if self.is_strict(tube):
            if state == "reserved" or (job.reserves and state != "buried"):
                self.begun.setdefault(place, job.id)
            if state == "buried" and self.begun.get(place) == job.id and not self.holds_buried(tube):
                del self.begun[place]

    def holds_buried(self, tube: str) -> bool:
        return "hold-buried" in self.rule_of_groups(tube, "group-order")

    def open_groups(self, tube: str, but: Thing | None = None) -> None:
        """A tube has groups from now on; the jobs that are there are of none."""
        self.served[tube] = {"": 0} if [job for job in self.of_group(tube, "") if job is not but] else {}

    def end_in_group(self, job: Thing) -> None:
        """A job has ended in its group."""
        (tube, group), job.place = job.place, None
        if self.begun.get((tube, group)) == job.id:
            del self.begun[tube, group]
        if tube in self.served and not self.of_group(tube, group):
            self.served[tube].pop(group, None)
            self.close_groups(tube)

    def close_groups(self, tube: str) -> None:
        """A tube has no groups any more, if nothing says that it has."""
        if not set(self.served[tube]) - {""} and not self.has_group_rules(tube):
            del self.served[tube]

    def follow_rules(self, tube: str) -> None:
        """A tube is there now, or its rules have changed."""
        self.begun = {
            place: id
            for place, id in self.begun.items()
            if place[0] != tube
            or (self.is_strict(tube) and (self.holds_buried(tube) or self.jobs[id].state != "buried"))
        }
        if self.has_group_rules(tube) and tube not in self.served:
            self.open_groups(tube)
        elif tube in self.served:
            self.close_groups(tube)

    def open_tube(self, tube: str) -> str:
        is_there = tube in self.tubes
        super().open_tube(tube)
        if not is_there:
            self.follow_rules(tube)
        return tube

    def forget_tubes(self) -> None:
        super().forget_tubes()
        for tube in set(self.served) - set(self.tubes):
            del self.served[tube]

    # --- who is next ---

    def key(self, job: Thing) -> tuple[int, int]:
        """Where a ready job stands in its group: what has begun comes first."""
        return (-1 if self.begun.get(job.place) == job.id else job.pri, job.id)

    def closed_by(self, tube: str, group: str) -> dict[str, int]:
        """What holds a group back: the fact that `explain` says of it."""
        limit = int(self.rules_of(tube).get("group-concurrency", 1 << 62))
        closed = {"limit": limit} if len(self.of_group(tube, group, "reserved")) >= limit else {}
        begun = self.begun.get((tube, group))
        return closed | ({"begun": begun} if begun and self.jobs[begun].state != "ready" else {})

    def share(self, tube: str, group: str) -> int:
        weights = dict(each.rsplit("=", 1) for each in self.rule_of_groups(tube, "group-weight"))
        return len(self.of_group(tube, group, "reserved")) * SHARES_PER_JOB // int(weights.get(group, 1))

    def heads(self, tube: str) -> list[Thing]:
        """The next job of each group of which one may be reserved, in the order in which they come."""
        found = []
        for group, served in self.served[tube].items():
            ready = [job for job in self.of_group(tube, group, "ready") if not self.is_over(job)]
            if ready and not self.closed_by(tube, group):
                first = min(ready, key=self.key)
                pri = 0 if "fair" in self.rule_of_groups(tube, "groups") else first.pri
                found.append(((pri, self.share(tube, group), served), first))
        return [job for _, job in sorted(found, key=lambda each: each[0])]

    def ready_in(self, tube: str) -> list[Thing]:
        return self.heads(tube)[:1] if tube in self.served else super().ready_in(tube)

    def peek_ready(self, session: Thing, state: str = "ready") -> str:
        """With groups: the next job, or if none may be reserved one of those that are ready."""
        if state != "ready" or session.used not in self.served:
            return super().peek_ready(session, state)
        ready = [job for job in self.jobs.values() if job.tube == session.used and job.state == "ready"]
        shown = self.heads(session.used) or sorted(ready, key=self.key)
        return self.peek(session, shown[0]) if shown else "NOT_FOUND"

    def line_of(self, job: Thing) -> list[Thing]:
        """The jobs in whose line one stands that nobody holds."""
        if job.state == "ready" and job.tube in self.served:
            return sorted(self.of_group(*job.place, "ready"), key=self.key)
        return self.first(Thing(used=job.tube), job.state)

    # --- what is said of them ---

    def facts_of_group(self, job: Thing) -> dict[str, Any]:
        """What `explain` says of the group of a job; empty: nothing."""
        if job.tube not in self.served:
            return {}
        closed, held = self.closed_by(*job.place), len(self.of_group(*job.place, "reserved"))
        return {"group": f'"{job.group}"', "held": held, **closed} if job.group or closed else {}

    def stats_groups(self, session: Thing, tube: str, options: dict[str, Any]) -> str:
        if tube not in self.tubes:
            return "NOT_FOUND"
        items = []
        for group in self.served.get(tube, {}):
            counts = Counter(job.state for job in self.of_group(tube, group))
            items.append((counts["ready"], counts["reserved"], group))
        return listed("---\n" + "".join(self.item_of_group(tube, group) for *_, group in sorted(items, reverse=True)))

    def item_of_group(self, tube: str, group: str) -> str:
        weights = dict(each.rsplit("=", 1) for each in self.rule_of_groups(tube, "group-weight"))
        first = min(self.of_group(tube, group, "ready"), key=self.key, default=None)
        closed = {"limit": "group-concurrency", "begun": "group-order"}
        lines = [
            *[f'group: "{group}"', f"weight: {weights.get(group, 1)}"],
            *[f"{state}: {len(self.of_group(tube, group, state))}" for state in STATES],
            *([f"next: {first.id}", f"next-age: {seconds(self.now - first.created)}"] if first else []),
            f"closed: [{', '.join(closed[fact] for fact in self.closed_by(tube, group))}]",
        ]
        return "- " + "\n  ".join(lines) + "\n"
