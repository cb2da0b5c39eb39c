"""OpenTelemetry spans of requests: one for each, in the caller's trace, and within it the waiting and the computing."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sardonyx.serve.work import Answer, Work

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

# What lies between the moments of a request, from its arrival on.
_PARTS = ("queue", "input", "compute", "output")


def open_traces() -> Traces:
    """Spans that go where OpenTelemetry's own variables say, in the background."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.environment_variables import OTEL_SERVICE_NAME
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = None if os.environ.get(OTEL_SERVICE_NAME) else {SERVICE_NAME: "sardonyx"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)


class Traces:
    """Follows requests and writes their spans once they are answered, when all moments are known."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("sardonyx.serve")
        self._extract = TraceContextTextMapPropagator().extract
        # Requests are timed by a clock that never jumps; spans are told in the time of day.
        self._offset = time.time_ns() - time.perf_counter_ns()

    def follow(self, work: Work, model: str, version: str) -> None:
        """Lets the work write its span when it is answered."""
        answer = work.answer

        def answered(found: Answer) -> None:
            answer(found)
            self._write(work, found, {"model": model, "version": version})

        work.answer = answered

    def close(self) -> None:
        """Sends what is still here."""
        self._provider.shutdown()

    def _write(self, work: Work, found: Answer, names: dict[str, str]) -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        context = None if work.trace is None else self._extract({"traceparent": work.trace.decode("latin-1")})
        facts: dict[str, Any] = {**names, "rows": work.rows}
        request = self._tracer.start_span(
            "infer", context, SpanKind.SERVER, facts, start_time=work.arrived + self._offset
        )
        if isinstance(found, Exception):
            request.set_status(Status(StatusCode.ERROR, str(found)))
        inside, moments = set_span_in_context(request), work.moments
        for name, (began, ended) in zip(_PARTS, pairwise((work.arrived, *(moments or ()))), strict=False):
            self._tracer.start_span(name, inside, start_time=began + self._offset).end(ended + self._offset)
        request.end(time.perf_counter_ns() + self._offset)
