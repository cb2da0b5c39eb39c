"""A training export as it answers in evaluation: what can be compared with the original."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from sardonyx.model import Model


def in_evaluation(model: Model) -> Model:
    """A copy in which Dropout passes everything on and BatchNormalization uses its running statistics."""
    copy = model.ir.clone()
    off = ir.Value(
        name="sardonyx_training_mode_off", const_value=ir.tensor(np.array(False), name="sardonyx_training_mode_off")
    )
    off.shape, off.type = ir.Shape(()), ir.TensorType(ir.DataType.BOOL)
    copy.graph.register_initializer(off)
    for node in copy.graph.all_nodes():
        if node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None:
            node.replace_input_with(2, off)
        if node.op_type == "BatchNormalization" and node.attributes.get_int("training_mode", 0):
            node.attributes["training_mode"] = ir.AttrInt64("training_mode", 0)
            node.resize_outputs(1)
    return Model(copy)
