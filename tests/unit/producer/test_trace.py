"""The trace a task is linked to."""

from opentelemetry import trace

from taskbell.producer.trace import current_traceparent


def test_without_a_span_there_is_no_traceparent() -> None:
    assert current_traceparent() is None


def test_the_current_span_is_written_in_w3c_form() -> None:
    context = trace.SpanContext(
        trace_id=0x0AF7651916CD43DD8448EB211C80319C,
        span_id=0xB7AD6B7169203331,
        is_remote=False,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )

    with trace.use_span(trace.NonRecordingSpan(context)):
        traceparent = current_traceparent()

    assert traceparent == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
