"""Graphs of many nodes, for what has to stay quick."""

from __future__ import annotations

import random

import onnx
from onnx import helper

from sardonyx.model import Model


def large(count: int, *, scoped: bool) -> Model:
    """A deep network: a hundred blocks with scopes, or one long list without any order in it."""
    operators = ("Mul", "Add", "Relu", "Sigmoid", "Tanh")
    values, nodes, chance = ["x"], [], random.Random(0)
    for index in range(count):
        operator = operators[index % 5] if scoped else chance.choice(operators)
        back = 4 if scoped else chance.randint(1, 30)
        inputs = [values[-1], values[max(0, len(values) - back)]] if operator in ("Mul", "Add") else [values[-1]]
        name = f"/layers.{index // 100}/block.{index // 10 % 10}/{operator}_{index}" if scoped else f"node_{index}"
        nodes.append(helper.make_node(operator, inputs, [f"t{index}"], name=name))
        values.append(f"t{index}")
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in ("x", values[-1])]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:])
    return Model.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
