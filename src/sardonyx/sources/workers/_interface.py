"""Gives an exported graph the inputs and outputs that were asked for: names, types, dynamic dimensions and ranks.

Exporters of estimators disagree about all four. What they computed is left alone; nodes are added only at the borders.
"""

import numpy
from onnx import ModelProto, TensorProto, TypeProto, defs, helper, numpy_helper

FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
NUMBERS = (*FLOATS, TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT8)
TYPES = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16, "bool": TensorProto.BOOL,
    "int8": TensorProto.INT8, "int16": TensorProto.INT16, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
}  # fmt: skip


def settle(model: ModelProto, answers, *, inputs, dynamic, opset, output_names=None):
    """Edits `model` in place so that it takes `inputs` and gives outputs shaped like `answers`, the original's own.

    `inputs`: example arrays by name. `dynamic`: {input: {axis: dimension name}}. `answers`: [(name, array)] for the example.
    """
    graph = model.graph
    one_import_each(model)
    raise_stamp(model, opset)
    wide = any(value.type.tensor_type.elem_type == TensorProto.DOUBLE for value in graph.input)
    for value in list(graph.input):
        _settle_input(graph, value, inputs[value.name], axes_of(dynamic, value.name))
    made = _made(model, inputs) or [_declared(value.type) for value in graph.output]
    names = list(output_names or ()) or [name for name, _ in answers]
    if len(names) != len(answers):
        raise ValueError(f"{len(names)} output names for {len(answers)} outputs: {', '.join(n for n, _ in answers)}")
    narrow = wide and not any(array.dtype == numpy.float64 for array in inputs.values())
    batch = next((axes[0] for axes in (axes_of(dynamic, name) for name in inputs) if 0 in axes), None)
    _settle_outputs(graph, names, [array for _, array in answers], made, batch=batch, narrow=narrow)


def axes_of(dynamic, name):
    """{axis: dimension name} of one input. JSON turns the axes into strings."""
    return {int(axis): dim for axis, dim in (dynamic or {}).get(name, {}).items()}


def one_import_each(model):
    """skl2onnx repeats the import of the standard operators; the newest of each domain stays."""
    newest = {}
    for entry in model.opset_import:
        newest[entry.domain] = max(entry.version, newest.get(entry.domain, 0))
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in newest.items())


def raise_stamp(model, opset):
    """Exporters stamp the oldest opset that holds; the one that was asked for is as true if no operator changed since."""
    standard = next((entry for entry in model.opset_import if entry.domain == ""), None)
    if standard is None:
        model.opset_import.append(helper.make_opsetid("", opset))
    elif standard.version < opset and all(_same(name, standard.version, opset) for name in _operators(model.graph)):
        standard.version = opset


def _same(name, old, new):
    return defs.get_schema(name, old, "").since_version == defs.get_schema(name, new, "").since_version


def _operators(graph):
    """The names of the standard operators, inner graphs included."""
    found = set()
    for node in graph.node:
        found |= {node.op_type} if node.domain in ("", "ai.onnx") else set()
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                found |= _operators(inner)
    return found


def rename(graph, old, new):
    """Renames a tensor wherever it is made or read, inner graphs included."""
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename(attribute.g, old, new)
            for inner in attribute.graphs:
                rename(inner, old, new)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        if value.name == old:
            value.name = new


def free_name(graph, wanted):
    """The name with as many underscores as it takes to be new in the graph."""
    used = {name for node in graph.node for name in (*node.input, *node.output)}
    used |= {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    while wanted in used:
        wanted += "_"
    return wanted


def _settle_input(graph, value, array, axes):
    """The dimensions that were asked for, and a Cast behind the input where the graph computes in another type of number."""
    name, inside = value.name, value.type.tensor_type.elem_type
    outside = TYPES.get(array.dtype.name, TensorProto.STRING)
    shape = [axes.get(axis, size) for axis, size in enumerate(array.shape)]
    if inside != outside and inside in FLOATS and outside in NUMBERS:
        cast = free_name(graph, name + "_cast")
        rename(graph, name, cast)
        value.name = name
        graph.node.insert(0, helper.make_node("Cast", [name], [cast], to=inside))
        inside = outside
    value.CopyFrom(helper.make_tensor_value_info(name, inside, shape))


def _settle_outputs(graph, names, arrays, made, *, batch, narrow):
    """One graph output per answer; the tensors behind them keep their values and get the rank and name of the answer."""
    pieces = list(_pieces(graph, list(graph.output), made, arrays))
    del graph.output[:]
    for name, array, (tensor, kind, shape) in zip(names, arrays, pieces):
        if shape is not None and len(shape) != array.ndim and _same_size(shape, array.shape):
            wanted = numpy.array([-1, *array.shape[1:]], numpy.int64)
            tensor = _add(graph, "Reshape", [tensor, _constant(graph, wanted)])
        if narrow and kind == TensorProto.DOUBLE:
            tensor, kind = _add(graph, "Cast", [tensor], to=TensorProto.FLOAT), TensorProto.FLOAT
        if any(value.name == tensor for value in (*graph.input, *graph.output)):  # one tensor cannot have two names
            tensor = _add(graph, "Identity", [tensor])
        if name != tensor:
            if free_name(graph, name) != name:
                rename(graph, name, free_name(graph, name + "_inner"))
            rename(graph, tensor, name)
        first = batch if batch is not None else array.shape[0]
        graph.output.append(helper.make_tensor_value_info(name, kind, [first, *array.shape[1:]]))


def _pieces(graph, outputs, made, arrays):
    """(tensor, element type, shape) for every answer; a sequence or stacked output is taken apart."""
    for index, array in enumerate(arrays):
        last = min(index, len(outputs) - 1)
        value, behind = outputs[last], index - last
        kind, shape = made[last]
        if value.type.HasField("sequence_type"):
            position = _constant(graph, numpy.array(behind, numpy.int64))
            yield _add(graph, "SequenceAt", [value.name, position]), kind, array.shape
        elif len(arrays) > len(outputs) and last == len(outputs) - 1:
            yield _slice(graph, value, behind, array), kind, array.shape
        else:
            yield value.name, kind, shape


def _same_size(shape, other):
    return None in shape or numpy.prod(shape) == numpy.prod(other)


def _made(model, inputs):
    """(element type, shape) of each output when the graph runs; what is declared is not always true. None if it does not run."""
    undeclared = ModelProto()
    undeclared.CopyFrom(model)
    for value in undeclared.graph.output:
        value.ClearField("type")
    try:
        import onnxruntime

        session = onnxruntime.InferenceSession(undeclared.SerializeToString(), _quiet(onnxruntime))
        made = session.run(None, {name: _fed(array) for name, array in inputs.items()})
    except Exception:  # the caller's comparison says what is wrong with it
        return None
    first = [value[0] if isinstance(value, list) and value else value for value in made]
    return [(TYPES.get(numpy.asarray(value).dtype.name, TensorProto.STRING), numpy.shape(value)) for value in first]


def _quiet(onnxruntime):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def _fed(array):
    return array.astype(object) if array.dtype.kind in "US" else array


def _slice(graph, value, index, array):
    """Answer `index` of a stack [answers, batch, widest]: its plane, cut to its own width."""
    plane = _add(graph, "Gather", [value.name, _constant(graph, numpy.array(index, numpy.int64))], axis=0)
    bounds = [_constant(graph, numpy.array([number], numpy.int64)) for number in (0, array.shape[-1], array.ndim - 1)]
    return _add(graph, "Slice", [plane, *bounds])


def _declared(kind: TypeProto):
    tensor = kind.sequence_type.elem_type.tensor_type if kind.HasField("sequence_type") else kind.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    return tensor.elem_type, dims if tensor.HasField("shape") else None


def _add(graph, op_type, inputs, **attributes):
    output = free_name(graph, op_type.lower() + "_of_" + inputs[0])
    graph.node.append(helper.make_node(op_type, inputs, [output], **attributes))
    return output


def _constant(graph, array):
    name = free_name(graph, "border_constant")
    graph.initializer.append(numpy_helper.from_array(array, name))
    return name
