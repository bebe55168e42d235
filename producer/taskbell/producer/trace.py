"""Which trace a task belongs to, in the W3C form that the ``task`` row keeps."""

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

# Not the application's global propagator, which may write another format than the column holds.
_W3C = TraceContextTextMapPropagator()


def current_traceparent() -> str | None:
    """Return the current span as ``traceparent``; None without a span."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get("traceparent")
