"""The documentation as it is read: the site builds without a warning; its search and its pages for programs lead on."""

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.servers import missing_peer, peer

pytestmark = [pytest.mark.repository, pytest.mark.xdist_group("site")]

ROOT = Path(__file__).resolve().parent.parent

FIRST = {
    "recipes/#unique": "unique jobs, unique job, deduplication, duplicate",
    "recipes/#retry": "dead letter, dead letter queue, poison message, retry, retry backoff, backoff",
    "recipes/#rate-limit": "rate limit, rate limiting, throttle, concurrency limit",
    "recipes/#when-a-provider-is-down": "circuit breaker, breaker, outage",
    "recipes/#delayed": "delayed job, delayed jobs",
    "recipes/#only-the-last": "debounce",
    "recipes/#jobs-that-expire": "expire, ttl",
    "recipes/#priority": "priority",
    "recipes/#many-tenants": "rate limit per key, concurrency per tenant, message groups, groups, fairness, fifo",
    "recipes/#backpressure": "backpressure",
    "recipes/#cancel-a": "cancel, cancel job, cancel running job, cancellation",
    "schedules/": "cron, crontab, schedule, scheduling, celery beat",
    "recipes/#deploy-without": "deploy, zero downtime, rolling restart",
    "worker/#ttr": "timeout",
    "worker/#tracing": "tracing, opentelemetry, otel, traceparent, distributed tracing",
    "client/#headers": "headers, message headers",
    "worker/#one-call": "linger",
    "worker/#slots": "slots",
    "client/#batch": "batch, bulk, pipeline",
    "compatibility/#differences": "differences",
    "security/#supported-versions": "supported versions",
    "security/#deprecation": "deprecation",
    "security/#formats-of-the-log": "log format version",
    "protocol/#list-jobs": "list-jobs",
    "comparison/#workflows": "workflow, workflows, dag, job dependencies, chain, chord, callback, saga",
    "comparison/#exactly-once": "exactly once, idempotency, idempotent",
    "comparison/#publish": "pub/sub, publish subscribe, fan-out, topics, event stream, replay",
    "comparison/#results": "result backend, results, progress, job history, rpc",
    "inbox/": "transaction, transactional, inbox",
    "frameworks/": "outbox, django, fastapi",
    "autoscaling/": "autoscaling, KEDA, scale workers",
    "access/": "tls, acl, password, encryption, users, permissions",
    "comparison/#roles": "single sign-on, ldap, oauth",
    "shards/": "sharding, shards, scale-out",
    "comparison/#websockets": "websocket, webhook, serverless, push",
    "comparison/#celery": "kombu, celery broker",
    "comparison/#windows": "windows, windows server, macos",
    "reproduce/": "benchmark",
    "comparison/": "kafka, sqs, temporal, bullmq, sidekiq, feature",
}
"""What stands first for the words that people search for. What Beanpole has not leads to when not to take it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds. Each warning is an error: a link that leads nowhere, a page without a place."""
    if importlib.util.find_spec("mkdocs") is None:
        missing_peer("what `make docs` needs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert built.returncode == 0, built.stdout
    return folder


def test_the_search_leads_to_the_guide_first(site: Path) -> None:
    queries = [(query, where) for where, words in FIRST.items() for query in words.split(", ")]
    command = [peer("node"), str(ROOT / "tests/site_search.mjs"), str(site)]
    asked = "\n".join(query for query, _ in queries)
    found = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    wrong = [
        f"{query}: {at or 'nothing'}, not {where}"
        for (query, where), at in zip(queries, found, strict=True)
        if not at.startswith(where)
    ]
    assert not wrong, "\n".join(["give what should stand first these words, best in a heading", *wrong])


class Links(HTMLParser):
    """The addresses that a page links to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: list[dict[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "link":
            self.all.append(dict(attrs))


def test_each_page_is_there_as_markdown(site: Path) -> None:
    """Beside its HTML, which names it, and in llms.txt; its links lead to files, too."""
    listed = set(re.findall(r"^- \[.+\]\((.+?)\)", (site / "llms.txt").read_text(), re.MULTILINE))
    named = set()
    for page in site.rglob("index.html"):
        for link in Links(page.read_text()).all:
            if link.get("type") == "text/markdown":
                named.add((page.parent / (link["href"] or "")).resolve().relative_to(site).as_posix())
    assert named == listed == {each.relative_to(site).as_posix() for each in site.rglob("*.md")}
    assert len(listed) > 50
    for name in listed:
        text = (site / name).read_text()
        assert re.search(r"^# \w", text, re.MULTILINE), f"{name} has no heading"
        assert "\n::: " not in text, f"{name} has directives instead of docstrings"
        targets = re.findall(r"\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)", text)
        missing = [each for each in targets if not ((site / name).parent / each).exists()]
        assert not missing, f"{name} links to {missing}"


def test_nothing_but_pages_is_published(site: Path) -> None:
    assert not [each for each in site.rglob("*") if each.suffix == ".py" or each.name == "__pycache__"]
