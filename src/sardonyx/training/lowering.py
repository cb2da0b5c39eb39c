"""The forward pass of a training graph in the way that was measured to be the fastest; the network itself stays as it is."""

from __future__ import annotations

import onnx_ir as ir
import onnx_ir.passes.common as passes

from sardonyx.build import Builder
from sardonyx.gradient.convolving import convolve_as_strip, pays_as_strip
from sardonyx.gradient.windows import Windows, windows
from sardonyx.model import Model


def lowered(model: Model) -> Model:
    """The model with small pictures of many channels convolved as strips. It is changed in place."""
    graph = model.ir.graph
    build = Builder(graph, model.opset, prefix="strips/")
    for node in [node for node in graph if node.op_type == "Conv" and node.domain == ""]:
        slid = _windows(build, node)
        if slid is not None:
            _replace(build, node, slid)
    passes.TopologicalSortPass()(model.ir)
    return model


def _windows(build: Builder, node: ir.Node) -> Windows | None:
    """The windows of a convolution that pays as a strip."""
    x, kernel, *_ = (build.expr(value) for value in node.inputs if value is not None)
    if x.shape is None or kernel.sizes is None:
        return None
    strides, dilations, pads = (
        None if (found := node.attributes.get(name)) is None else list(found.as_ints())
        for name in ("strides", "dilations", "pads")
    )
    slid = windows(x, kernel.sizes[2:], strides, dilations, pads, node.attributes.get_string("auto_pad", "NOTSET"))
    group = node.attributes.get_int("group", 1)
    return slid if slid is not None and pays_as_strip(x, kernel, slid, group) else None


def _replace(build: Builder, node: ir.Node, slid: Windows) -> None:
    x, kernel, *bias = (build.expr(value) for value in node.inputs if value is not None)
    strip = convolve_as_strip(x, kernel, slid, *bias)
    strip.value.shape = node.outputs[0].shape
    build.replace(node.outputs[0], strip)
    build.graph.remove(node, safe=True)
