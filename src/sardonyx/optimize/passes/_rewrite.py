"""The form that every pass of this folder has, and the notes that `--explain` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import onnx_ir as ir

from sardonyx.optimize.passes._graph import Declined, introduce, is_standard


@dataclass(frozen=True)
class Note:
    """What a pass did at a node, or why it left the node as it is."""

    rewrite: str
    node: str
    done: bool
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {"pass": self.rewrite, "node": self.node, "done": self.done, "reason": self.reason}


class Pass(ir.passes.InPlacePass):  # type: ignore[misc]
    """A pass that takes notes. `order` says when it runs: small numbers first."""

    order: ClassVar[int]

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[Note] = []

    def note(self, node: str, reason: str, *, done: bool) -> None:
        self.notes.append(Note(self.__module__.rpartition(".")[2], node, done, reason))


class Rewrite(Pass):
    """Looks at every node of `operators`, in the graph and in those inside it.

    `rewrite` gives a sentence where it replaced something, None where there is nothing to replace, and raises `Declined`
    where there is, but must not be.
    """

    operators: ClassVar[tuple[str, ...]]

    def rewrite(self, node: ir.Node) -> str | None:
        raise NotImplementedError

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        introduce(model)
        done = 0
        for graph in list(model.graphs()):
            for node in list(graph):
                if node.graph is None or not is_standard(node, *self.operators):
                    continue
                name = _shown(node)
                try:
                    reason = self.rewrite(node)
                except Declined as declined:
                    self.note(name, str(declined), done=False)
                    continue
                if reason is not None:
                    self.note(name, reason, done=True)
                    done += 1
        return ir.passes.PassResult(model, modified=done > 0)


class Borrowed(Pass):
    """A pass of onnx_ir or onnxscript, with notes about what it changed and what it could not.

    `apply` runs it, `count` is what it lowers, `what` names that, and `refusals` says what it leaves.
    """

    what: ClassVar[str]

    def apply(self, model: ir.Model) -> None:
        raise NotImplementedError

    def count(self, model: ir.Model) -> int:
        return sum(len(graph) for graph in model.graphs())

    def refusals(self, model: ir.Model) -> list[tuple[str, str]]:
        """Nodes that this pass could be expected to change, and why it did not, looked at after it ran."""
        raise NotImplementedError

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        before = self.count(model)
        self.apply(model)
        changed = before - self.count(model)
        if changed > 0:
            self.note("", f"{changed} {self.what}", done=True)
        for node, reason in self.refusals(model):
            self.note(node, reason, done=False)
        return ir.passes.PassResult(model, modified=changed > 0)


def _shown(node: ir.Node) -> str:
    return node.name or (node.outputs[0].name if node.outputs else "") or node.op_type
