"""Nodes written one call at a time: `emit("Add", x, y)` gives the name of the sum."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np
import onnx


class Emitter:
    """Collects nodes under names that are not `taken`."""

    def __init__(self, opset: int, taken: Container[str] = ()) -> None:
        self.opset = opset
        self._taken = taken
        self._count = 0
        self._nodes: list[onnx.NodeProto] = []

    def __call__(self, op_type: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or self.fresh(op_type)
        self._nodes.append(onnx.helper.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        return self("Constant", value=onnx.numpy_helper.from_array(np.asarray(value, dtype)))

    def fresh(self, name: str) -> str:
        self._count += 1
        made = f"{name}@{self._count}"
        return self.fresh(name) if made in self._taken else made

    def collect(self, write: Callable[[], bool]) -> list[onnx.NodeProto] | None:
        """The nodes that `write` emits; None if it declines."""
        self._nodes = []
        return self._nodes if write() else None
