"""One version of one model: loaded, measured, and run through its queue."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any

from sardonyx.model import Model
from sardonyx.run.session import Session, Settings
from sardonyx.serve.batch import Batcher
from sardonyx.serve.empty import Empties
from sardonyx.serve.isolate import Isolated
from sardonyx.serve.join import Join, Shapes
from sardonyx.serve.options import Options
from sardonyx.serve.policy import Policy, measure, must_not_change
from sardonyx.serve.repository import Entry
from sardonyx.serve.runs import LocalRuns, Runs
from sardonyx.serve.statistics import Statistics
from sardonyx.serve.terms import Terms, sizes_of
from sardonyx.serve.traces import Traces
from sardonyx.serve.trial import Verdict
from sardonyx.serve.work import Work
from sardonyx.signature import Array

PLATFORM = "onnxruntime_onnx"
# Their number of turns hangs on the values, so a quick answer at warm-up says nothing about the next.
_LOOPS = ("Loop", "Scan")
# What these compute hangs on the values of the inputs at these places, where those are not constants.
_SIZED = {
    "Range": (0, 1, 2), "ConstantOfShape": (0,), "Expand": (1,), "Tile": (1,), "Resize": (2, 3), "Upsample": (1,), "OneHot": (1,),
    "Pad": (1,), "CenterCropPad": (1,), "Col2Im": (0,), "BlackmanWindow": (0,), "HammingWindow": (0,), "HannWindow": (0,),
    "MelWeightMatrix": (0, 1),
}  # fmt: skip
_RECENT = 8


class Served:
    """One version of one model, loaded and measured."""

    def __init__(
        self, entry: Entry, options: Options, traces: Traces | None = None, verdict: Verdict | None = None
    ) -> None:
        """Reads, checks, loads and warms the model. Takes its time: call it in a thread.

        A `verdict` of a trial says which sizes may be 0; without one, requests are taken as they come.
        """
        self.name, self.version, self.path = entry.name, entry.version, entry.path
        model = Model.load(entry.path)
        self.signature = model.signature
        self.terms = Terms(self.signature, elements=options.limits.elements, strings=options.limits.strings)
        self.terms.empties = None if verdict is None else Empties(self.signature, verdict.empties)
        self.join = Join(self.signature, options.batching.pad)
        self.statistics = Statistics()
        self._traces = traces
        # A thread that waits busily would burn the CPU that the next request needs.
        settings = Settings(provider=options.provider, threads=options.threads_each, spinning=False).filled_from(model)
        self._runs: Runs = (
            Isolated(
                entry.path, settings, self.terms.datatypes, seconds=options.load_seconds,
                output_bytes=options.limits.output_bytes,
            )
            if options.isolate
            else LocalRuns(Session(entry.path, settings, signature=self.signature))
        )  # fmt: skip
        try:
            self.policy = self._measured(model, options)
        except BaseException:
            self._runs.close()
            raise
        self._batcher: Batcher | None = None
        self._recent: deque[list[Array]] | None = None if options.promote_tolerance is None else deque(maxlen=_RECENT)

    def open(self, options: Options) -> Served:
        """Starts the queue, on the event loop that will serve."""
        self._batcher = Batcher(
            self.run,
            self.policy,
            options.batching,
            self.statistics,
            join=self.join,
            instances=options.instances,
            runs=self._runs.fresh,
        )
        return self

    def run(self, outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:
        """The outputs for inputs in the order of the signature."""
        return self._runs(outputs, inputs)

    def submit(self, work: Work) -> None:
        assert self._batcher is not None, "opened before it is found"
        if self._recent is not None:
            self._recent.append(work.inputs)
        if self._traces is not None:
            self._traces.follow(work, self.name, self.version)
        self._batcher.submit(work)

    def key(self, outputs: tuple[str, ...], shapes: Shapes, rows: int) -> Hashable:
        """What a request has in common with those it may share a run with; None for one that runs alone."""
        return self.join.key(outputs, shapes) if rows else None

    def recent(self) -> list[list[Array]]:
        """The inputs of the latest requests, for a model that is to take this one's place."""
        return list(self._recent or ())

    @property
    def waiting(self) -> int:
        return self._batcher.waiting if self._batcher else 0

    async def close(self, *, at_once: bool = False) -> None:
        """Answers what is queued and lets the model go. `at_once` stops what is under way."""
        if self._batcher is not None:
            await self._batcher.close(at_once=at_once)
        self._runs.close()

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Name, platform, inputs and outputs, as the protocol's metadata answer holds them."""
        return {
            "name": self.name,
            "versions": [self.version],
            "platform": PLATFORM,
            "inputs": self.terms.metadata(self.signature.inputs),
            "outputs": self.terms.metadata(self.signature.outputs),
        }

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model in the words of Triton's configuration, which its clients and load generators ask for."""

        def tensors(specs: Iterable[Any]) -> list[dict[str, Any]]:
            return [
                {
                    "name": spec.name,
                    "data_type": f"TYPE_{self.terms.datatypes[spec.name].replace('BYTES', 'STRING')}",
                    "dims": sizes_of(spec.shape),
                }
                for spec in specs
            ]

        return {
            "name": self.name,
            "platform": PLATFORM,
            "backend": "onnxruntime",
            "max_batch_size": 0,  # shapes are written with their batch, as the model has them
            "input": tensors(self.signature.inputs),
            "output": tensors(self.signature.outputs),
        }

    def _measured(self, model: Model, options: Options) -> Policy:
        loops = options.isolate or hangs_on_values(model)
        shapes = [spec.shape for spec in self.signature.inputs]
        fixed = all(shape is not None and all(isinstance(size, int) for size in shape[1:]) for shape in shapes)
        cpu = options.provider == "cpu" and options.instances == 1
        if self.join.pads:
            must_not_change(self.run, self.signature, self.join, options.batching.pad)
        own_thread = options.provider == "cpu" and options.threads_each == 1
        return measure(
            self.run, self.signature, self.terms, most=options.batching.most, quick=fixed and not loops and cpu,
            clock=time.thread_time if own_thread else time.perf_counter,
        )  # fmt: skip


def hangs_on_values(model: Model) -> bool:
    """Whether the time of a run hangs on the values of its inputs: loops, and sizes that are computed."""
    constants = {
        name
        for graph in model.ir.graphs()
        for name in (*graph.initializers, *(node.outputs[0].name for node in graph if node.op_type == "Constant"))
    }
    nodes = [*model.ir.graph.all_nodes(), *(node for each in model.ir.functions.values() for node in each.all_nodes())]
    return any(
        node.op_type in _LOOPS
        or any(
            place < len(node.inputs) and (value := node.inputs[place]) is not None and value.name not in constants
            for place in _SIZED.get(node.op_type, ())
        )
        for node in nodes
    )
