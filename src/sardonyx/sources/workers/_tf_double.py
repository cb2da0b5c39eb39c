"""A TensorFlow graph computed in float64: its operators one by one, with every narrower float type widened.

Constants and variables are cast, so that the difference from the plain answer is rounding alone. Variables are never written:
what the graph assigns is remembered for the rest of this one call.
"""

import numpy
import tensorflow as tf
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.python.eager import context, execute

from ._tf_graph import captures

WIDER = {tf.float32: tf.float64, tf.float16: tf.float64, tf.bfloat16: tf.float64, tf.complex64: tf.complex128}
MOST = 300000  # operators of one call, loops unrolled: minutes
LEFT_OUT = ("Placeholder", "NoOp", "Assert", "PrintV2")
BITS = ("Bitcast", "DecodeRaw")
CALLS = ("PartitionedCall", "StatefulPartitionedCall")


class InDouble:
    """A concrete function in float64. Calls raise NotImplementedError where an operator is beyond this."""

    def __init__(self, concrete):
        self._concrete = concrete
        self._captured = [value if isinstance(value, tf.Variable) else _widen(value) for value in captures(concrete)]
        self._functions = {}
        self._variables = {}  # by the id of their handle, in float64

    def __call__(self, *tensors):
        """The outputs, flat, for the inputs in order."""
        self._written, self._left = {}, MOST
        given = [*map(_widen, tensors), *self._captured]
        with tf.device("/CPU:0"):
            return self._graph(self._concrete.graph, self._concrete.inputs, given, self._concrete.outputs)

    def _graph(self, graph, inputs, given, outputs):
        values = {tensor.ref(): value for tensor, value in zip(inputs, given)}
        for operation in graph.get_operations():
            if operation.type in LEFT_OUT:
                continue
            self._left -= 1
            if self._left < 0:
                raise NotImplementedError("its loops are too long to compute in float64")
            answers = self._run(operation, [values[tensor.ref()] for tensor in operation.inputs])
            values.update((tensor.ref(), answer) for tensor, answer in zip(operation.outputs, answers))
        return [values[tensor.ref()] for tensor in outputs]

    def _run(self, operation, given):
        kind = operation.type
        if kind in ("Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot"):
            return given
        if kind == "Const":
            return [_widen(tf.constant(tf.make_ndarray(operation.get_attr("value"))))]
        if kind in CALLS:
            return self._call(operation, "f", given)
        if kind in ("If", "StatelessIf"):
            return self._call(operation, "then_branch" if _truth(given[0]) else "else_branch", given[1:])
        if kind in ("Case", "StatelessCase"):
            functions = operation.get_attr("branches")
            index = int(given[0])
            chosen = functions[index] if 0 <= index < len(functions) else functions[-1]
            return self._function(operation.graph, chosen.name, given[1:])
        if kind in ("While", "StatelessWhile"):
            while _truth(self._call(operation, "cond", given)[0]):
                given = self._call(operation, "body", given)
            return given
        if given and isinstance(given[0], tf.Variable):
            return self._variable(operation, given)
        rule = RULES.get(kind)
        return rule(operation, *given) if rule else [_widen(answer) for answer in _execute(operation, given)]

    def _call(self, operation, attribute, given):
        return self._function(operation.graph, operation.get_attr(attribute).name, given)

    def _function(self, graph, name, given):
        if name not in self._functions:
            self._functions[name] = _inner(graph, name)
        inner = self._functions[name]
        return self._graph(inner, inner.inputs, given, inner.outputs)

    def _variable(self, operation, given):
        """Reads and writes of a variable, which stays as it is."""
        variable, kind = given[0], operation.type
        now = self._written.get(id(variable))
        if now is None:
            now = self._variables.setdefault(id(variable), _widen(tf.convert_to_tensor(variable)))
        if kind == "ReadVariableOp":
            return [now]
        if kind == "ResourceGather":
            return [tf.gather(now, given[1], batch_dims=operation.get_attr("batch_dims"))]
        if kind == "VariableShape":
            return [tf.shape(now, operation.get_attr("out_type"))]
        changes = {
            "AssignVariableOp": lambda _, new: new,
            "AssignAddVariableOp": tf.add,
            "AssignSubVariableOp": tf.subtract,
        }
        if kind not in changes:
            raise NotImplementedError(f"it changes a variable by {kind}, which has no float64 here")
        self._written[id(variable)] = changes[kind](now, given[1])
        return []


def _inner(graph, name):
    """The graph of a function that an operator of `graph` calls."""
    while graph is not None:
        if graph._is_function(name):
            return graph._get_function(name).graph
        graph = getattr(graph, "outer_graph", None)
    raise NotImplementedError(f"the inner function {name} is not to be found")


def _truth(tensor):
    return bool(tf.reduce_any(tf.cast(tensor, tf.bool)) if tensor.shape.rank else tf.cast(tensor, tf.bool))


def _widen(tensor):
    return tf.cast(tensor, WIDER[tensor.dtype]) if tensor.dtype in WIDER else tensor


def _execute(operation, given):
    """The operator in float64. Those that draw or read bits run as the graph has them: in another type they mean other things."""
    if "Random" in operation.type or operation.type in BITS:
        return _ask(
            operation,
            [tf.cast(value, tensor.dtype) for value, tensor in zip(given, operation.inputs)],
            lambda kind: kind,
        )
    try:
        answers = _ask(operation, given, _wider)
    except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, TypeError) as error:
        raise NotImplementedError(f"the operator {operation.type} has no float64") from error
    if any(answer.dtype in WIDER for answer in answers):
        raise NotImplementedError(f"the operator {operation.type} answers in float32 whatever it is given")
    return answers


def _ask(operation, given, typed):
    attributes = []
    for name in operation.node_def.attr:
        if not name.startswith("_"):
            attributes += [name, _attribute(operation.get_attr(name), typed)]
    answer = execute.execute(
        operation.type, len(operation.outputs), inputs=list(given), attrs=tuple(attributes), ctx=context.context()
    )
    return list(answer) if isinstance(answer, (list, tuple)) else [answer]


def _wider(kind):
    return WIDER.get(kind, kind)


def _attribute(value, typed):
    """An attribute as the executor takes it: types as numbers, shapes as lists."""
    if isinstance(value, list):
        return [_attribute(item, typed) for item in value]
    if isinstance(value, tf.DType):
        return typed(value).as_datatype_enum
    if isinstance(value, TensorShapeProto):
        return None if value.unknown_rank else [dim.size for dim in value.dim]
    return value


# Operators that have no float64 on a CPU, and are common.


def _batch_normalization(operation, x, scale, offset, mean, variance):
    if operation.get_attr("is_training") or operation.get_attr("data_format") != b"NHWC":
        raise NotImplementedError("it normalises by the statistics of the batch, or by channels that come first")
    epsilon = operation.get_attr("epsilon")
    return [tf.nn.batch_normalization(x, mean, variance, offset, scale, epsilon), mean, variance, mean, variance, mean]


def _convolution(operation, image, kernel):
    """A grouped convolution, group by group."""
    groups = image.shape[-1] // kernel.shape[2] if operation.get_attr("data_format") == b"NHWC" else 1
    if groups == 1:
        return _execute(operation, [image, kernel])
    pairs = zip(tf.split(image, groups, -1), tf.split(kernel, groups, -1))
    return [tf.concat([_execute(operation, pair)[0] for pair in pairs], -1)]


def _bilinear(operation, image, size):
    """A resize, which TensorFlow computes in float32 only: by one matrix for the rows and one for the columns."""
    options = [operation.get_attr(name) for name in ("align_corners", "half_pixel_centers")]
    rows, columns = (
        tf.constant(_weights(int(before), int(after), *options))
        for before, after in zip(image.shape[1:3], size.numpy())
    )
    return [tf.einsum("Hh,bhwc,Ww->bHWc", rows, _widen(image), columns)]


def _weights(before, after, align_corners, half_pixel_centers):
    """How much of each of the old points a new one has."""
    scale = (before - 1) / (after - 1) if align_corners and after > 1 else before / after
    at = (numpy.arange(after) + 0.5) * scale - 0.5 if half_pixel_centers else numpy.arange(after) * scale
    low = numpy.floor(at)
    weights = numpy.zeros((after, before))
    for near, share in ((low, 1 - (at - low)), (low + 1, at - low)):
        numpy.add.at(weights, (numpy.arange(after), numpy.clip(near, 0, before - 1).astype(int)), share)
    return weights


RULES = {"FusedBatchNormV3": _batch_normalization, "Conv2D": _convolution, "ResizeBilinear": _bilinear}
