"""The conditions inside an ONNX graph as goals: each `If` and each comparison is to come out true somewhere and false somewhere.

The graph is run with, for every condition, the smallest and largest of its outcome and of both its operands as further outputs.
It costs a run of onnxruntime, so that a search can try hundreds of inputs before the original is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from sardonyx.errors import SourceFailed
from sardonyx.falsify.mutate import Gap
from sardonyx.model import Model
from sardonyx.signature import Arrays
from sardonyx.sources import Original, Outputs, Source

OPERATORS = {
    "Less": "Lt", "LessOrEqual": "LtE", "Greater": "Gt", "GreaterOrEqual": "GtE", "Equal": "Eq",
}  # fmt: skip
TESTS = frozenset(("IsNaN", "IsInf"))
BRANCH = "If"
NUMERIC = frozenset((
    ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.INT64, ir.DataType.INT32, ir.DataType.UINT8,
    ir.DataType.INT8, ir.DataType.INT16,
))  # fmt: skip
MOST = 48
PREFIX = "sardonyx_goal_"


@dataclass(frozen=True)
class Condition:
    """One comparison of the graph, or one `If` by what decides it."""

    number: int
    operator: str
    node: str


@dataclass(frozen=True)
class Sight:
    """The outcomes that one input brought about, and the operands of the comparisons."""

    reached: frozenset[tuple[int, bool]]
    gaps: Mapping[int, Gap]


class GraphGoals:
    """An export that is watched. `close` ends its process."""

    def __init__(self, model: Model, path: Path, *, timeout: float) -> None:
        copy = model.ir.clone()
        self.conditions = watch(copy)
        self.reached: set[tuple[int, bool]] = set()
        self.gaps: dict[int, tuple[Gap, Arrays]] = {}
        self._session: Original | None = None
        self._names = [spec.name for spec in model.signature.inputs]
        if self.conditions:
            saved = Model(copy).save(path)
            self._session = Original(Source("onnx", "onnx", path=saved), timeout=timeout)
            self._session.__enter__()

    def close(self) -> None:
        if self._session is not None:
            self._session.__exit__()
            self._session = None

    @property
    def missing(self) -> list[tuple[int, bool]]:
        """The outcomes that no input has brought about yet."""
        return [
            (condition.number, outcome)
            for condition in self.conditions
            for outcome in (False, True)
            if (condition.number, outcome) not in self.reached
        ]

    @property
    def untaken(self) -> list[tuple[str, bool]]:
        """The `If` nodes that never came out so."""
        names = {condition.number: condition.node for condition in self.conditions if condition.operator == BRANCH}
        return [(names[number], outcome) for number, outcome in self.missing if number in names]

    def look(self, batches: Sequence[Arrays]) -> list[bool]:
        """Runs the inputs, and says of each whether it reached an outcome that was missing."""
        if self._session is None:
            return [False] * len(batches)
        found = []
        given = [{name: batch[name] for name in self._names} for batch in batches]
        try:
            answers = self._session.predict(given)
        except SourceFailed:  # the runtime's process died; the export itself is asked about these inputs elsewhere
            self.close()
            return [False] * len(batches)
        for batch, answer in zip(batches, answers, strict=True):
            sight = self._sight(answer) if isinstance(answer, Outputs) else Sight(frozenset(), {})
            found.append(bool(sight.reached - self.reached))
            self.reached |= sight.reached
            for number, gap in sight.gaps.items():
                if number not in self.gaps or _distance(gap) < _distance(self.gaps[number][0]):
                    self.gaps[number] = (gap, batch)
        return found

    def _sight(self, answer: Outputs) -> Sight:
        values = dict(zip(answer.names, answer.arrays, strict=True))
        reached, gaps = set(), {}
        for condition in self.conditions:
            number = condition.number
            low, high = (float(values[f"{PREFIX}{number}_{what}"]) for what in ("min", "max"))
            reached |= {(number, False)} if low < 0.5 else set()
            reached |= {(number, True)} if high > 0.5 else set()
            if f"{PREFIX}{number}_left_min" in values:
                sides = [
                    float(values[f"{PREFIX}{number}_{side}_{end}"])
                    for side in ("left", "right")
                    for end in ("min", "max")
                ]
                gaps[number] = (sides[0], sides[1], sides[2], sides[3], condition.operator)
        return Sight(frozenset(reached), gaps)


def watch(model: ir.Model) -> list[Condition]:
    """Adds the outputs to the main graph, and gives the conditions that they speak of."""
    graph = model.graph
    found: list[Condition] = []
    nodes = list(graph)
    for node in nodes:
        if node.op_type == BRANCH and len(found) < MOST and node.inputs[0] is not None and _on_values(node.inputs[0]):
            _reduce(graph, node.inputs[0], f"{PREFIX}{len(found)}")
            found.append(Condition(len(found), BRANCH, node.name or node.outputs[0].name or BRANCH))
    for node in nodes:
        if len(found) == MOST:
            break
        if node.op_type not in OPERATORS and node.op_type not in TESTS:
            continue
        if all(value is None or ir.convenience.get_const_tensor(value) is not None for value in node.inputs):
            continue
        number = len(found)
        _reduce(graph, node.outputs[0], f"{PREFIX}{number}")
        if node.op_type in OPERATORS and all(value is not None and value.dtype in NUMERIC for value in node.inputs):
            for side, value in zip(("left", "right"), node.inputs, strict=True):
                assert value is not None, "asked above"
                _reduce(graph, value, f"{PREFIX}{number}_{side}")
        found.append(Condition(number, OPERATORS.get(node.op_type, node.op_type), node.name or node.op_type))
    return found


def _on_values(value: ir.Value) -> bool:
    """Whether the value is computed from the values of an input, and not from its size alone."""
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        node = one.producer()
        if node is None:
            if one.is_graph_input() and one.const_value is None:
                return True
        elif node.op_type not in ("Shape", "Size"):
            waiting += [given for given in node.inputs if given is not None]
    return False


def _reduce(graph: ir.Graph, value: ir.Value, name: str) -> None:
    """Appends the smallest and the largest element of a tensor as outputs."""
    cast = ir.node("Cast", [value], attributes={"to": ir.DataType.DOUBLE})
    cast.outputs[0].name = f"{name}_cast"
    graph.append(cast)
    for operator, end in (("ReduceMin", "min"), ("ReduceMax", "max")):
        node = ir.node(operator, [cast.outputs[0]], attributes={"keepdims": 0})
        node.outputs[0].name = f"{name}_{end}"
        node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.DOUBLE), ir.Shape(())
        graph.append(node)
        graph.outputs.append(node.outputs[0])


def _distance(gap: Gap) -> float:
    low, high, other_low, other_high, _ = gap
    nearest = min(abs(high - other_low), abs(low - other_high))
    return nearest if np.isfinite(nearest) else np.inf
