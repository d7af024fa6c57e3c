"""Spans of OpenTelemetry: one trace from a put to each attempt at its job."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from beanpole import AsyncClient, Client, Pool, Retry, Task, Worker
from beanpole.protocol.limits import META_BYTES_MAX, META_PAIRS_MAX
from beanpole.testing import FakeServer

EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    """The provider of this process, which can be set once."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(made)
    return made


@pytest.fixture(autouse=True)
def request_span(provider: TracerProvider) -> Iterator[trace.Span]:
    """What the program is at while it puts."""
    with provider.get_tracer("program").start_as_current_span("request") as span:
        EXPORTER.clear()
        yield span


def spans(*names: str) -> list[ReadableSpan]:
    """Those that have ended, which must have these names."""
    found = list(EXPORTER.get_finished_spans())
    assert [each.name for each in found] == [*names]
    return found


def about(span: ReadableSpan) -> tuple[Any, ...]:
    assert span.attributes is not None
    assert (span.attributes["messaging.system"], span.attributes["messaging.destination.name"]) == ("beanpole", "t")
    told = ("messaging.operation.type", "messaging.message.id", "beanpole.attempt", "error.type")
    return (span.kind, span.status.status_code, *(span.attributes.get(name) for name in told))


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan | trace.Span) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


@pytest.mark.parametrize("is_async", [False, True])
def test_one_trace_goes_from_the_request_to_each_attempt(request_span: trace.Span, *, is_async: bool) -> None:
    with FakeServer() as server, Client(server.url, tracing=True) as client:
        worker = Worker(server.url, tracing=True)
        seen: list[int] = []

        def handle(task: Task[Any]) -> object:
            seen.append(trace.get_current_span().get_span_context().span_id)
            assert task.meta["tenant"] == "acme"
            if task.attempt == 1:
                raise ValueError("a gear broke")
            return Retry(delay=1) if task.attempt == 2 else None

        async def handle_async(task: Task[Any]) -> object:
            return handle(task)

        worker.handler("t")(handle_async if is_async else handle)
        assert client.put("x", tube="t", meta={"tenant": "acme"}) == 1
        with server.running(worker):
            for _ in range(3):
                server.join()
                server.advance(100)
    put, first, second, third = spans("put t", *["process t"] * 3)
    assert about(put) == (SpanKind.PRODUCER, StatusCode.UNSET, "send", "1", None, None)
    assert about(first) == (SpanKind.CONSUMER, StatusCode.ERROR, "process", "1", 1, "ValueError")
    assert about(second) == (SpanKind.CONSUMER, StatusCode.ERROR, "process", "1", 2, "Retry")
    assert about(third) == (SpanKind.CONSUMER, StatusCode.UNSET, "process", "1", 3, None)
    assert parent_of(put) == id_of(request_span)
    assert [parent_of(each) for each in (first, second, third)] == [id_of(put)] * 3
    assert [[link.context.span_id for link in each.links] for each in (first, second, third)] == [[id_of(put)]] * 3
    assert seen == [id_of(each) for each in (first, second, third)]


def test_what_a_handler_puts_goes_on_with_its_trace() -> None:
    with FakeServer() as server, Client(server.url, tracing=True) as client:
        worker = Worker(server.url, tracing=True)

        @worker.function("t")
        def begin() -> None:
            end.put()

        @worker.function("t2")
        async def end() -> None:
            """Ends it."""

        client.put("{}", tube="t")
        with server.running(worker):
            server.join()
    found = {each.name: each for each in EXPORTER.get_finished_spans()}
    assert len({each.context.trace_id for each in found.values() if each.context}) == 1
    assert parent_of(found["put t2"]) == id_of(found["process t"])
    assert parent_of(found["process t2"]) == id_of(found["put t2"])


def test_a_batch_is_linked_to_the_puts_of_its_jobs() -> None:
    with FakeServer() as server, Client(server.url, tracing=True) as client:
        worker = Worker(server.url, tracing=True)

        @worker.handler("t", batch=3)
        def handle(tasks: list[Task[Any]]) -> None:
            tasks[1].fail(KeyError("b"))
            worker.stop()

        for body in "abc":
            client.put(body, tube="t")
        with server.running(worker):
            server.join()
    *puts, batch = spans("put t", "put t", "put t", "process t")
    assert [link.context.span_id for link in batch.links] == [id_of(put) for put in puts]
    assert parent_of(batch) is None
    assert about(batch) == (SpanKind.CONSUMER, StatusCode.ERROR, "process", None, None, "KeyError")
    assert batch.attributes is not None
    assert batch.attributes["messaging.batch.message_count"] == 3


def test_every_client_traces(request_span: trace.Span) -> None:
    async def put(url: str) -> None:
        async with AsyncClient(url, tracing=True) as client:
            await client.put("x", tube="t")
            await client.put_job("x", tube="t", key="k")

    with FakeServer() as server:
        asyncio.run(put(server.url))
        with Pool([server.url], tracing=True) as pool:
            pool.put("x", tube="t")
            with pool.client() as client, client.pipeline() as pipeline:
                pipeline.put("x", tube="t")  # which has no span of its own
            with Client(server.url) as looking:
                carried = [str((job.meta or {})["traceparent"]) for job in looking.list_jobs("t", "ready").jobs]
    wanted = [id_of(each) for each in spans("put t", "put t", "put t")] + [id_of(request_span)]
    assert [each.split("-")[2] for each in carried] == [f"{each:016x}" for each in wanted]


def test_a_put_that_fails_says_so() -> None:
    with FakeServer(body_bytes_max=3) as server, Client(server.url, tracing=True, use="t") as client:
        with pytest.raises(Exception, match="larger"):
            client.put("xxxx")
        assert client.put("x") == 1
    failed, _ = spans("put t", "put t")
    assert about(failed) == (SpanKind.PRODUCER, StatusCode.ERROR, "send", None, None, "JobTooBigError")


@pytest.mark.parametrize("old", [False, True])
def test_a_put_does_not_fail_because_of_its_trace(*, old: bool) -> None:
    """Where a server has no headers, or the program's own leave no room for it."""
    full = {} if old else {"a": "b" * (META_BYTES_MAX - 2)}
    many = {} if old else {str(number): "" for number in range(META_PAIRS_MAX)}
    with FakeServer(old=old) as server, Client(server.url, tracing=True, use="t") as client:
        assert [client.put("x", meta=meta) for meta in (full, many)] == [1, 2]
        with client.pipeline() as pipeline:
            results = [pipeline.put("x"), pipeline.put("x", delay=5)]
        assert [each.result() for each in results] == [3, 4]
        if not old:
            assert [job.meta for job in client.list_jobs("t", "ready", 2).jobs] == [full, many]
    spans("put t", "put t")


def test_nothing_is_loaded_without_tracing() -> None:
    code = "import sys, beanpole; beanpole.Client(), beanpole.Worker(); sys.exit('opentelemetry' in str(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_library_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import beanpole; beanpole.Worker(tracing=True)"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "tracing needs opentelemetry: pip install 'beanpole[otel]'" in done.stderr
