"""A model made ready for its gradient: a copy without functions of its own, at an opset the rules speak, with shapes."""

from __future__ import annotations

import logging

import onnx_ir as ir
import onnx_ir.passes.common as passes

from sardonyx import runtime
from sardonyx.build import infer
from sardonyx.errors import InputError
from sardonyx.gradient.spelled import put_back
from sardonyx.model import Model
from sardonyx.stamp import fit_runtime

# Reductions with axes as input, ScatterND that adds, Split by number, Gelu: from here on the operators keep their form.
OLDEST_OPSET = 20


def prepared(model: Model) -> Model:
    """A copy whose functions are inlined, whose opset lies between the rules' oldest and the runtime's newest."""
    work = Model(model.ir.clone(), path=model.path)
    if work.ir.functions:
        passes.InlinePass()(work.ir)
    if not work.opset:
        raise InputError("the model imports no standard operators", hint="export it with an opset of ai.onnx")
    if work.opset < OLDEST_OPSET:
        _raise_opset(work.ir)
    if work.opset > runtime.limits().opset:
        fit_runtime(work.ir)
    _infer(work.ir)
    put_back(work.ir)
    return work


def _raise_opset(model: ir.Model) -> None:
    from onnxscript import version_converter

    logging.getLogger(version_converter.__name__).setLevel(logging.ERROR)  # it announces its fallback
    version_converter.convert_version(model, OLDEST_OPSET, fallback=True)
    if model.opset_imports.get("", 0) < OLDEST_OPSET:
        raise InputError(
            f"the model cannot be brought from opset {model.opset_imports.get('')} to {OLDEST_OPSET}",
            hint=f"export it again at opset {OLDEST_OPSET} or later",
        )


def _infer(model: ir.Model) -> None:
    passes.TopologicalSortPass()(model)
    infer_all = passes.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)
    infer_all(model)
    if any(_unclear(node) or _computable(node) for node in model.graph):
        _fold_integers(model)
        infer_all(model)
    for node in model.graph:
        if node.domain == "" and _open(node):
            infer(node, model.opset_imports[""])


def _fold_integers(model: ir.Model) -> None:
    """Computes shapes that the model works out from constants, so that inference sees them. Floats stay as they are."""
    from onnxscript import optimizer

    optimizer.fold_constants(model, onnx_shape_inference=True, should_fold=_all_integers)


def _unclear(node: ir.Node) -> bool:
    return any(value.shape is None for value in node.outputs if value.name)


def _computable(node: ir.Node) -> bool:
    """Whether the node works out integers, as where a slice begins, from nothing but constants: rules want to know them."""
    known = (value is None or ir.convenience.get_const_tensor(value) is not None for value in node.inputs)
    return bool(node.inputs) and _all_integers(node) and all(known)


def _all_integers(node: ir.Node) -> bool:
    return all(value.dtype is not None and not value.dtype.is_floating_point() for value in node.outputs)


def _open(node: ir.Node) -> bool:
    """Whether a look at the node alone may tell more than the inference over the whole model did."""
    typed = all(value is None or value.type is not None for value in node.inputs)
    plain = all(attribute.type != ir.AttributeType.GRAPH for attribute in node.attributes.values())
    return typed and plain and any(value.shape is None for value in node.outputs)
