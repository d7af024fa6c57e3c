"""Traces by OpenTelemetry, for ``tracing=True``: only then is this module loaded, and with it that library.

Each put is a span, and the job carries what W3C's trace context says of it as headers, so that each attempt of a worker
goes on with its trace. Names and attributes are those of the semantic conventions for messaging. The program says with
OpenTelemetry's SDK what becomes of spans; without a provider there are none.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from beanpole.client.commands import Awaiting
from beanpole.errors import ArgumentError
from beanpole.version import __version__

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ArgumentError(f"tracing needs {error.name}: pip install 'beanpole[otel]'") from error

if TYPE_CHECKING:
    from beanpole.client.base import BaseClient
    from beanpole.client.job import Job

TRACER = trace.get_tracer("beanpole", __version__)
PRODUCER, CONSUMER = trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER
CONTEXT = TraceContextTextMapPropagator()


def carried() -> dict[str, str]:
    """The headers of a job that is put now: which span is the current one."""
    headers: dict[str, str] = {}
    CONTEXT.inject(headers)
    return headers


@contextmanager
def span_of(
    verb: str, kind: trace.SpanKind, tube: str, more: Mapping[str, str | int], jobs: Sequence["Job[Any]"] = ()
) -> Iterator[trace.Span]:
    """Make a span current while this runs. It links to the puts of its jobs; that of a single job is its parent."""
    contexts = [CONTEXT.extract(job.meta) for job in jobs]
    puts = [trace.get_current_span(each).get_span_context() for each in contexts]
    links = [trace.Link(each) for each in puts if each.is_valid]
    above = contexts[0] if len(jobs) == 1 and links else None
    names = {"system": "beanpole", "destination.name": tube, "operation.name": verb}
    said = {f"messaging.{name}": value for name, value in names.items()}
    with TRACER.start_as_current_span(f"{verb} {tube}", above, kind, {**said, **more}, links) as span:
        try:
            yield span
        except BaseException as error:
            fail(span, error)
            raise


def fail(span: trace.Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(trace.StatusCode.ERROR, f"{type(error).__name__}: {error}")


def trace_puts(client: Any) -> None:  # noqa: ANN401 - of either kind
    """Lets a client make a span of each put; whatever it puts carries the current one."""
    client._session.carried = carried  # noqa: SLF001 - this is a part of the client
    vars(client).update(put=traced(client, client.put), put_job=traced(client, client.put_job))


def traced(client: "BaseClient[Any]", put: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def span(tube: str) -> Iterator[Callable[[Any], Any]]:
        to = client.address
        more: dict[str, str | int] = {"messaging.operation.type": "send", "server.address": to.path or to.host}
        if not to.path:
            more["server.port"] = to.port
        with span_of("put", PRODUCER, tube or client._session.using, more) as made:  # noqa: SLF001
            yield lambda result: made.set_attribute("messaging.message.id", str(getattr(result, "id", result)))

    @functools.wraps(put)
    def method(*args: Any, tube: str = "", **options: Any) -> Any:  # noqa: ANN401 - as those of the client
        with span(tube) as note:
            note(result := put(*args, tube=tube, **options))
        return result

    @functools.wraps(put)
    async def coroutine(*args: Any, tube: str = "", **options: Any) -> Any:  # noqa: ANN401 - as those of the client
        with span(tube) as note:
            note(result := await put(*args, tube=tube, **options))
        return result

    return coroutine if isinstance(client, Awaiting) else method
