"""The routes from TensorFlow to ONNX, and what tf2onnx leaves to do: names, dimensions, and operators it gave up on."""

import contextlib
import itertools
import logging
import os
import re
import sys
import tempfile

import onnx
import tensorflow as tf

from ._interface import axes_of, free_name, rename
from ._operators import apply_rules, mend_tf2onnx
from ._tensors import Refused, advice, plain, stripped

OPSET = 18  # the newest that tf2onnx writes; the caller upgrades from here
LOADED = itertools.count()
# Operators without a counterpart in ONNX -> what to do about them.
ADVICE = {
    r"(?:Eager)?PyFunc\w*": "it calls back into Python; write that step with TensorFlow's own functions",
    r"String\w*|\w*Regex\w*|Unicode\w*|\w*Substr": "keep steps on texts, as TextVectorization and Hashing, outside of the model",
    r"Matrix\w*|Cholesky|Svd|Qr|SelfAdjointEigV2|Lu|LogMatrixDeterminant": "ONNX has no such linear algebra; where it does not "
    "depend on the inputs, keep the result as a weight",
    r"Complex|Real|Imag|Angle|Conj": "ONNX has no complex numbers; carry the real and the imaginary part as two tensors",
}
UNKNOWN = "unk__"  # how tf2onnx names the dimensions that it knows nothing of


def export(model, route, out, *, inputs, dynamic, opset, input_names=None, output_names=None, training=False):
    """Writes the ONNX file; {"opset": the one it has}, which may be lower than the one asked for."""
    if training:
        raise Refused("the TensorFlow routes export for inference only", "leave --training out")
    mend_tf2onnx()
    opset = min(opset, OPSET)
    names = list(model.specs or inputs)
    model.find_state(inputs)
    with model.undisturbed():  # the export holds the state that the model was opened with
        answers = [name for name, _ in model.run({name: tf.constant(inputs[name]) for name in names})]
    specs = {name: _spec(name, inputs[name], axes_of(dynamic, name)) for name in names}
    with tempfile.TemporaryDirectory() as folder, errors_of_tf2onnx() as records, model.undisturbed():
        made = ROUTES[route](model, specs, opset, folder)
    made = apply_rules(made, nodes_of(made.graph), opset)
    refuse_leftovers(made.graph, records, opset)
    taken, given = inputs_of(made.graph, names), outputs_of(made.graph, answers)
    settle_dimensions(made.graph, taken, inputs, dynamic)
    rename_all(made.graph, taken, wanted(names, input_names, "input"))
    rename_all(made.graph, given, wanted(answers, output_names, "output"))
    onnx.save(made, out)
    return {"opset": opset}


def wanted(names, asked, what):
    """{the model's own name: the one it gets}."""
    if asked and len(asked) != len(names):
        raise Refused(f"{len(asked)} {what} names for {len(names)} {what}s: {', '.join(names)}")
    return dict(zip(names, asked or names))


def _spec(name, array, axes):
    shape = [None if axis in axes else size for axis, size in enumerate(array.shape)]
    return tf.TensorSpec(shape, tf.string if array.dtype.kind in "US" else array.dtype, name)


# The routes: (model, specs, opset, scratch folder) -> ModelProto


def by_keras(model, specs, opset, folder):
    if model.model is None:
        raise Refused("this is not a Keras model")
    path = os.path.join(folder, "model.onnx")
    options = {"input_signature": model.arrange(specs), "opset_version": opset, "verbose": False}
    model.model.export(path, format="onnx", **options)
    return onnx.load(path)


def by_function(model, specs, opset, folder):
    made = from_function(model.run, specs, opset)
    if any(node.op_type.endswith("PartitionedCall") for node in nodes_of(made.graph)):
        # Functions compiled by XLA, as in grouped convolutions, are not inlined unless Python itself runs through them.
        tf.config.run_functions_eagerly(True)
        try:
            made = from_function(model.run, specs, opset)
        finally:
            tf.config.run_functions_eagerly(False)
    return made


def from_function(run, specs, opset):
    import tf2onnx

    function = tf.function(lambda *tensors: [value for _, value in run(dict(zip(specs, tensors)))])
    made = tf2onnx.convert.from_function(function, list(specs.values()), opset=opset)[0]
    fill_captured(made.graph, function.get_concrete_function(*specs.values()))
    return made


def fill_captured(graph, concrete):
    """Puts in the values that the function captured, such as the mean of a Normalization; tf2onnx makes inputs of them."""
    captured = concrete.captured_inputs
    values = {inner.name: value for inner, value in zip(concrete.inputs[-len(captured) :], captured)}
    for value in [value for value in graph.input if value.name in values]:
        graph.initializer.append(onnx.numpy_helper.from_array(values[value.name].numpy(), value.name))
        graph.input.remove(value)


def by_saved_model(model, specs, opset, folder):
    import tf2onnx.convert

    path = os.path.join(folder, "model.onnx")
    source, signature = saved(model, specs, folder)
    words = ["tf2onnx", "--saved-model", source, "--signature_def", signature, "--opset", str(opset), "--output", path]
    before, sys.argv = sys.argv, words  # its command line is the only public way in that keeps lookup tables
    try:
        tf2onnx.convert.main()
    finally:
        sys.argv = before
    return onnx.load(path)


def by_v1_loader(model, specs, opset, folder):
    import tf2onnx

    definition, inputs, outputs = model.graph or frozen(*saved(model, specs, folder))
    if model.graph is None or model.folder is not None:  # its functions want inlining first, which from_function does
        function = graph_function(definition, inputs, outputs)
        return from_function(lambda named: enumerate(function(*[named[name] for name in inputs])), specs, opset)
    ends = {"input_names": list(inputs.values()), "output_names": list(outputs.values())}
    return tf2onnx.convert.from_graph_def(definition, opset=opset, **ends)[0]


def by_tflite(model, specs, opset, folder):
    import tf2onnx

    if "ASSIGN_VARIABLE" in model.stateful:
        raise Refused(
            "it changes a variable while it runs, and ONNX has no variables", "make the state an input and an output"
        )
    return tf2onnx.convert.from_tflite(model.path, opset=opset)[0]


ROUTES = {
    "keras": by_keras, "function": by_function, "saved-model": by_saved_model, "v1-loader": by_v1_loader,
    "tflite": by_tflite,
}  # fmt: skip


def saved(model, specs, folder):
    """(folder, signature) of the model as a SavedModel: the one it came from, or one written now."""
    if model.folder is not None:
        return model.folder, model.signature
    path = os.path.join(folder, "saved_model")

    @tf.function
    def serve(*tensors):
        answers = model.run(dict(zip(specs, tensors)))
        return {
            f"output_{index:04}": value for index, (_, value) in enumerate(answers)
        }  # a signature sorts its outputs

    concrete = serve.get_concrete_function(*specs.values())
    holder = tf.Module()
    holder.owner, holder.held = model.model or model.owner, list(concrete.variables)
    tf.saved_model.save(holder, path, signatures=concrete)
    return path, "serving_default"


def signatures(folder):
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        return sorted(tf.compat.v1.saved_model.load(session, ["serve"], folder).signature_def)


def frozen(folder, signature):
    """(graph, inputs, outputs) of a SavedModel through TensorFlow 1's loader, its variables made constants."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        definition = tf.compat.v1.saved_model.load(session, ["serve"], folder).signature_def[signature]
        inputs, outputs = (
            {name: tensor.name for name, tensor in sorted(side.items())}
            for side in (definition.inputs, definition.outputs)
        )
        nodes = [name.partition(":")[0] for name in outputs.values()]
        constant = tf.compat.v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), nodes)
    mark_functions(constant, f"v1_{next(LOADED)}_")
    return constant, inputs, outputs


def mark_functions(definition, prefix):
    """Renames the functions of a graph: TensorFlow keeps one list of them, and may have read the same folder before."""
    library = definition.library
    names = {function.signature.name for function in library.function}
    for node in (*definition.node, *(node for function in library.function for node in function.node_def)):
        node.op = prefix + node.op if node.op in names else node.op
        for attribute in node.attr.values():
            for function in (*([attribute.func] if attribute.HasField("func") else ()), *attribute.list.func):
                function.name = prefix + function.name if function.name in names else function.name
    for function in library.function:
        function.signature.name = prefix + function.signature.name
    del library.gradient[:]


def graph_function(definition, inputs, outputs):
    """A frozen graph as a function of the tensors that `inputs` names, in that order."""
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(definition, name=""), [])
    return wrapped.prune(
        *([wrapped.graph.get_tensor_by_name(name) for name in side.values()] for side in (inputs, outputs))
    )


# What tf2onnx leaves behind


@contextlib.contextmanager
def errors_of_tf2onnx():
    """The error records of tf2onnx, which goes on after most errors and writes a graph that nothing can run."""
    records = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = records.append
    logger = logging.getLogger("tf2onnx")
    logger.addHandler(handler)
    try:
        yield records
    finally:
        logger.removeHandler(handler)


def refuse_leftovers(graph, records, opset):
    """Raises Refused for a node that could not be converted, with the operator, the node and the opset that has it."""
    for record in records:
        if record.msg.startswith("Failed to convert node") and record.exc_info:
            cause = record.exc_info[1]
            raise Refused(f"node {record.args[0]}: {plain(cause)}", advice(cause) or "try another route")
    for node in nodes_of(graph):
        if not onnx.defs.has(node.op_type, node.domain if node.domain != "ai.onnx" else ""):
            raise unsupported(node, first_opset(node.op_type), opset)


def unsupported(node, since, opset):
    what = f"the operator {node.op_type} (node {node.name})"
    if node.op_type.endswith("PartitionedCall"):
        return Refused(f"the inner function of node {node.name} could not be inlined", "try another route")
    if since is None:
        advised = [hint for words, hint in ADVICE.items() if re.fullmatch(words, node.op_type)]
        return Refused(
            f"{what} has no rule in tf2onnx",
            advised[0] if advised else "write this part of the model with other operators",
        )
    if since > opset:
        return Refused(f"{what} has a rule from opset {since} on, not at {opset}", f"ask for --opset {since} or more")
    return Refused(f"{what} was left over: its rule does not fit this graph", "try another route")


def graphs_of(graph):
    """The graph and every graph inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
                yield from graphs_of(inner)


def nodes_of(graph):
    return [node for inner in graphs_of(graph) for node in inner.node]


def first_opset(operator):
    from tf2onnx.handler import tf_op

    versions = [version for version, rules in enumerate(tf_op.get_opsets().get("", [])) if operator in rules]
    return versions[0] if versions else None


def inputs_of(graph, names):
    """{the model's name: the graph's input}. Puts the graph's inputs into the model's order."""
    found = {stripped(value.name): value for value in graph.input if stripped(value.name) in names}
    if len(found) < len(names) == len(graph.input):
        found = dict(zip(names, graph.input))
    if len(graph.input) > len(names):
        held = ", ".join(value.name for value in graph.input if value not in found.values())
        raise Refused(f"the export makes inputs of constants that the model holds: {held}", "try another route")
    if len(found) < len(names):
        missing = ", ".join(name for name in names if name not in found)
        raise Refused(f"the export lost the input {missing}", "leave out of the model what does not reach an output")
    ordered = [type(found[name]).FromString(found[name].SerializeToString()) for name in names]
    del graph.input[:]
    graph.input.extend(ordered)
    return dict(zip(names, graph.input))


def outputs_of(graph, names):
    if len(graph.output) != len(names):
        raise Refused(f"the export has {len(graph.output)} outputs, the model {len(names)}: {', '.join(names)}")
    return dict(zip(names, graph.output))


def settle_dimensions(graph, taken, inputs, dynamic):
    """Inputs get the sizes and dimension names that were asked for, unless the graph fixes them; no invented names stay."""
    for name, value in taken.items():
        axes = axes_of(dynamic, name)
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if axis in axes and not dim.HasField("dim_value"):
                dim.dim_param = axes[axis]
            elif axis not in axes:
                dim.dim_value = inputs[name].shape[axis]
    for inner in graphs_of(graph):
        for value in (*inner.input, *inner.output, *inner.value_info):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param.startswith(UNKNOWN):
                    dim.Clear()


def rename_all(graph, values, names):
    """Renames the values to what `names` says, through names that nothing has, so that two may swap theirs."""
    passing = {free_name(graph, "renamed_" + name): new for name, new in names.items()}
    for value, name in zip(list(values.values()), passing):
        rename(graph, value.name, name)
    for name, new in passing.items():
        if free_name(graph, new) != new:
            rename(graph, new, free_name(graph, new + "_inner"))
        rename(graph, name, new)
