"""Metrics for Prometheus, under our names and under Triton's, made from the statistics when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from sardonyx.serve.engine import Models
from sardonyx.serve.served import Served

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

# Name, help, and how to read it. Times are microseconds, as Triton's dashboards expect.
Read = Callable[[Served], float]
COUNTERS: tuple[tuple[str, str, Read], ...] = (
    ("inference_request_success", "requests answered", lambda m: m.statistics.success.count),
    ("inference_request_failure", "requests that failed", lambda m: m.statistics.fail.count + m.statistics.refused),
    ("inference_count", "rows answered", lambda m: m.statistics.rows),
    ("inference_exec_count", "runs of the model", lambda m: m.statistics.runs),
    ("inference_request_duration_us", "time in the server", lambda m: _micro(m, "success")),
    ("inference_queue_duration_us", "time in the queue", lambda m: _micro(m, "queue")),
    ("inference_compute_input_duration_us", "time to put inputs together", lambda m: _micro(m, "compute_input")),
    ("inference_compute_infer_duration_us", "time to run the model", lambda m: _micro(m, "compute_infer")),
    ("inference_compute_output_duration_us", "time to share outputs out", lambda m: _micro(m, "compute_output")),
)
PREFIXES = ("nv", "sardonyx")


class Metrics(Collector):
    """The metrics of a server's models and of its process."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._visible: frozenset[str] | None = None
        self._own, self._registry = CollectorRegistry(), CollectorRegistry()
        self._own.register(self)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self, visible: frozenset[str] | None = None) -> bytes:
        """What Prometheus reads. A caller who may see some models alone gets theirs, and nothing of the process."""
        self._visible = visible
        registry = self._registry if visible is None else self._own
        # The counters' names end as Triton's do, without the `_total` that the library adds.
        return generate_latest(registry).replace(b"_total{", b"{").replace(b"_total ", b" ")

    def collect(self) -> Iterator[Metric]:
        labels = ("model", "version")
        for prefix in PREFIXES:
            for name, words, read in COUNTERS:
                counter = CounterMetricFamily(f"{prefix}_{name}", words, labels=labels)
                for model in self._models.all(self._visible):
                    counter.add_metric((model.name, model.version), read(model))
                yield counter
            waiting = GaugeMetricFamily(f"{prefix}_inference_pending_request_count", "requests waiting", labels=labels)
            for model in self._models.all(self._visible):
                waiting.add_metric((model.name, model.version), model.waiting)
            yield waiting


def _micro(model: Served, part: str) -> float:
    return model.statistics.totals()[part].ns / 1000
