"""OpenTelemetry spans reach a collector over its own wire format, in the caller's trace."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serving
from serving import tensor

pytestmark = pytest.mark.heavy
# `make test` installs them; `make check` must be able to look at this file without.
wire = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
grpc = pytest.importorskip("tritonclient.grpc")

X = np.array([[1, 2, 3, 4]], np.float32)
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{TRACE}-{PARENT}-01"


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """The address of a collector, and the resources whose spans it has been sent."""
    got: list[Any] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.extend(wire.ExportTraceServiceRequest.FromString(body).resource_spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()


def spans(resources: list[Any]) -> dict[str, list[Any]]:
    """The spans by their names."""
    found: dict[str, list[Any]] = {}
    for resource in resources:
        for span in resource.scope_spans[0].spans:
            found.setdefault(span.name, []).append(span)
    return found


def test_each_request_is_a_span_in_the_callers_trace_over_both_transports(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collector() as (address, got):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        with serving.running(models, grpc_port=0, traces=True) as server:
            message = {"inputs": [tensor("x", X, "FP32")]}
            assert server.post("/v2/models/tiny/infer", message, headers={"traceparent": CALLER}).status == 200
            assert (
                server.post("/v2/models/picky/infer", {"inputs": [tensor("i", np.array([9]), "INT64")]}).status == 400
            )
            assert server.post("/v2/models/tiny/infer", message, headers={"traceparent": "whatever"}).status == 200
            with grpc.InferenceServerClient(server.grpc) as client:
                given = grpc.InferInput("x", [1, 4], "FP32")
                given.set_data_from_numpy(X)
                client.infer("tiny", [given], headers={"traceparent": CALLER})
    found = spans(got)
    assert {resource.resource.attributes[0].key for resource in got} <= {"service.name", "telemetry.sdk.language"}
    requests = found["infer"]
    assert len(requests) == 4
    mine = [span for span in requests if span.trace_id.hex() == TRACE]
    assert [span.parent_span_id.hex() for span in mine] == [PARENT, PARENT]
    failed = [span for span in requests if span.status.code == 2]
    assert [span.attributes[0].value.string_value for span in failed] == ["picky"]
    for request in mine:
        parts = [span for name in ("queue", "input", "compute", "output") for span in found[name]]
        inside = [span for span in parts if span.parent_span_id == request.span_id]
        assert [span.name for span in inside] == ["queue", "input", "compute", "output"]
        assert inside[0].start_time_unix_nano == request.start_time_unix_nano
        assert all(a.end_time_unix_nano == b.start_time_unix_nano for a, b in pairwise(inside))
        assert inside[-1].end_time_unix_nano <= request.end_time_unix_nano
