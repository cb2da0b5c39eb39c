"""Puts right what PyTorch's exporters leave undone in the ONNX graph."""

from ._torch_call import to_array
from ._torch_wrapper import INNER


def keep_batch_statistics(model):
    """BatchNormalization that ran in training mode, marked so: the dynamo exporter leaves the mark out."""
    import onnx_ir as ir

    for node in model.graph:
        if node.op_type == "BatchNormalization" and "legit_functional" in (node.name or "") and len(node.outputs) == 1:
            node.attributes["training_mode"] = ir.AttrInt64("training_mode", 1)
            node.resize_outputs(3)
            for output, word in zip(node.outputs[1:], ("mean", "variance")):
                output.name = f"{node.outputs[0].name}_running_{word}"


def weight_bytes(model):
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)


def tidy(job):
    """After the TorchScript exporter: weights get forward's names, buffers that a call changes get their values from before
    it, and the inputs that nothing uses come back."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(job.out, load_external_data=False)
    graph, prefix = model.graph, INNER + "."
    names = {item.name: item.name[len(prefix) :] for item in graph.initializer if item.name.startswith(prefix)}
    kept = {value.name: value for value in graph.input}
    if not names and not job.state and list(kept) == job.inputs:
        return
    for item in graph.initializer:
        item.name = names.get(item.name, item.name)
        if item.name in job.state:
            item.CopyFrom(numpy_helper.from_array(to_array(job.state[item.name]), item.name))
    _rename(graph, names)
    inputs = [kept.get(name) or _value(name, *about) for name, *about in zip(job.inputs, job.tensors, job.axes)]
    del graph.input[:]
    graph.input.extend(inputs)
    onnx.save(model, job.out)


def _value(name, tensor, axes):
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(to_array(tensor).dtype)
    return helper.make_tensor_value_info(name, kind, [axes.get(axis, size) for axis, size in enumerate(tensor.shape)])


def _rename(graph, names):
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = names.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, names)
