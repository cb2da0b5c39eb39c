"""One route's export in the race: the model as asked for, open in a process of its own, with what it has answered so far."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from sardonyx.convert.candidate import Candidate
from sardonyx.convert.training import in_evaluation
from sardonyx.errors import SourceFailed
from sardonyx.falsify import Answered
from sardonyx.falsify.graph_goals import GraphGoals
from sardonyx.model import Model
from sardonyx.signature import Array, Arrays
from sardonyx.sources import Exported, Failure, Original, Outputs, Source

# A graph with more bytes of weights is not written a second time to watch its conditions.
WATCHED_BYTES = 300_000_000


class Contender:
    """An export that answers. `candidate` is what is known of it so far."""

    def __init__(
        self,
        exported: Exported,
        model: Model,
        folder: Path,
        *,
        training: bool,
        timeout: float,
        repairs: tuple[str, ...] = (),
    ) -> None:
        self.exported, self.model = exported, model
        self.mended = bool(repairs)  # after the export, as the table of repairs says
        done = (*(exported.notes.get("repairs") or ()), *repairs)
        reason = f"repaired: {', '.join(done)}" if done else ""
        self.candidate = Candidate(
            exported.route, "agrees", exported.seconds, model, max_error=0.0, tolerance=0.0, repairs=done, reason=reason
        )
        self.used = 0.0  # the largest share of a tolerance that it used
        self.fell_on: Answered | None = None  # the first answer of the original that it does not give
        self._stack = ExitStack()
        self._folder, self._timeout = folder, timeout
        self._goals: GraphGoals | None = None
        self._inputs = {spec.name: spec.dtype for spec in model.signature.inputs}
        self.path = (in_evaluation(model) if training else model).save(folder / f"{exported.route}.candidate.onnx")
        self._session = self._stack.enter_context(Original(Source("onnx", "onnx", path=self.path), timeout=timeout))

    @property
    def racing(self) -> bool:
        return self.candidate.verdict == "agrees"

    @property
    def goals(self) -> GraphGoals | None:
        """The conditions inside the graph, watched from the first time they are asked for."""
        if self._goals is None and self.model.weight_bytes() <= WATCHED_BYTES:
            path = self._folder / f"{self.exported.route}.watched.onnx"
            self._goals = GraphGoals(self.model, path, timeout=self._timeout)
            self._stack.callback(self._goals.close)
        return self._goals

    @property
    def processor_seconds(self) -> float:
        return self._session.processor_seconds

    def predict(self, batches: Sequence[Arrays]) -> list[Outputs | Failure]:
        """The export's answers; inputs that the exporter froze are left out."""
        given = [{name: _typed(batch[name], dtype) for name, dtype in self._inputs.items()} for batch in batches]
        try:
            return self._session.predict(given)
        except SourceFailed as error:  # onnxruntime died of one of them
            self._stack.enter_context(self._reopened())
            if len(batches) == 1:
                return [Failure(error.message.replace(str(self.path), "the export"))]
            return [answer for batch in batches for answer in self.predict([batch])]

    def _reopened(self) -> Original:
        self._session.__exit__()
        self._session = Original(Source("onnx", "onnx", path=self.path), timeout=self._timeout)
        return self._session

    def close(self) -> None:
        self._stack.close()


def _typed(array: Array, dtype: str) -> Array:
    """The array as a user would cast it for the export: an original may be asked with more precision than the export takes."""
    return array.astype(dtype) if array.dtype.kind == "f" and dtype in ("float32", "float64") else array
