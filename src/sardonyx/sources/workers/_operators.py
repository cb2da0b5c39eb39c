"""TensorFlow operators that tf2onnx leaves in the graph or gets wrong, written with ONNX's own operators."""

import importlib

import onnx
import onnx.inliner
import onnx.parser

DOMAIN = "tensorflow"  # marks a node while its function is put in its place
SINCE = 15  # the first opset with CastLike

# Each is an ONNX function in the textual syntax, put in place of the operator of that name.
RULES = {
    "Erfc": """(x) => (y) {
        one = Constant <value_float = 1.0> ()  unit = CastLike (one, x)
        e = Erf (x)  y = Sub (unit, e) }""",
    # exp(x) - 1 and log(1 + x) lose their digits near zero; tanh and the quotient keep them.
    "Expm1": """(x) => (y) {
        one = Constant <value_float = 1.0> ()  unit = CastLike (one, x)
        two = Constant <value_float = 2.0> ()  twice = CastLike (two, x)
        half = Div (x, twice)  t = Tanh (half)
        e = Exp (x)  more = Add (e, unit)  y = Mul (t, more) }""",
    "Log1p": """(x) => (y) {
        one = Constant <value_float = 1.0> ()  unit = CastLike (one, x)
        u = Add (x, unit)  log = Log (u)  back = Sub (u, unit)  lost = Div (x, back)  exact = Mul (log, lost)
        tiny = Equal (u, unit)  near = Where (tiny, x, exact)
        infinite = IsInf (u)  y = Where (infinite, u, near) }""",
    "Bucketize": """<boundaries> (x) => (y) {
        edges = Constant <value_floats: floats = @boundaries> ()  last = Constant <value_ints = [-1]> ()
        wide = Cast <to = 1> (x)  each = Unsqueeze (wide, last)
        below = Less (each, edges)  passed = Not (below)  counted = Cast <to = 6> (passed)
        y = ReduceSum <keepdims = 0> (counted, last) }""",
    # ONNX counts a negative index from the end; TensorFlow gives a row without a one, as ONNX does from `depth` on.
    "OneHot": """<axis> (indices, depth, values) => (y) {
        zero = Constant <value_int = 0> ()  none = CastLike (zero, indices)  negative = Less (indices, none)
        scalar = Constant <value_ints = [-1]> ()  flat = Reshape (depth, scalar)  first = Squeeze (flat)
        beyond = CastLike (first, indices)  safe = Where (negative, beyond, indices)
        y = OneHot <axis: int = @axis> (safe, depth, values) }""",
    # Of integers only. ONNX cuts towards zero: one less where a rest is left and the signs differ.
    "FloorDiv": """(x, y) => (z) {
        zero = Constant <value_int = 0> ()  none = CastLike (zero, x)
        one = Constant <value_int = 1> ()  unit = CastLike (one, x)
        cut = Div (x, y)  rest = Mod <fmod = 1> (x, y)  exact = Equal (rest, none)  left = Not (exact)
        down = Less (rest, none)  below = Less (y, none)  apart = Xor (down, below)  off = And (left, apart)
        lower = Sub (cut, unit)  z = Where (off, lower, cut) }""",
}


def apply_rules(model, nodes, opset):
    """The model with every operator of `RULES` written out; the same model where there is none."""
    found = [node for node in nodes if node.op_type in RULES and node.domain == ""]
    if not found or opset < SINCE:
        return model
    for node in found:
        node.domain = DOMAIN
        kept = [attribute for attribute in node.attribute if f"<{attribute.name}>" in RULES[node.op_type]]
        del node.attribute[:]
        node.attribute.extend(kept)
    for name in sorted({node.op_type for node in found}):
        head = f'<domain: "{DOMAIN}", opset_import: ["": {opset}]> {name} '
        model.functions.append(onnx.parser.parse_function(head + RULES[name]))
    model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    inlined = onnx.inliner.inline_local_functions(model)
    kept = [entry for entry in inlined.opset_import if entry.domain != DOMAIN]
    del inlined.opset_import[:]
    inlined.opset_import.extend(kept)
    return inlined


def mend_tf2onnx():
    """Registers the handlers below over those of tf2onnx."""
    from tf2onnx.handler import tf_op

    importlib.import_module("tf2onnx.tfonnx")  # registers theirs
    for name, handler in HANDLERS.items():
        theirs = [rules[name][0] for rules in tf_op.get_opsets()[""] if name in rules][-1]
        if theirs.__name__ != "mended":
            tf_op.register_handler(_mended(handler, theirs), SINCE, [name], "", {})


def _mended(handler, theirs):
    def mended(graph, node, **kwargs):
        handler(graph, node) or theirs(graph, node, **kwargs)

    return mended


def _select(graph, node):
    """tf2onnx adds the products of each side with 0 or 1, and NaN or infinity on the side not taken becomes the answer."""
    node.type = "Where"
    return True


def _select_rows(graph, node):
    """The older operator, which TFLite has as well; where a vector chooses whole rows, it is left to tf2onnx."""
    chooser, chosen = (graph.get_shape(name) for name in node.input[:2])
    return chooser is not None and chosen is not None and len(chooser) in (0, len(chosen)) and _select(graph, node)


def _floor_mod(graph, node):
    if _is_float(graph, node):
        return False
    node.type = "Mod"  # with the sign of the divisor, as TensorFlow's
    return True


def _floor_div(graph, node):
    return not _is_float(graph, node)  # left in the graph, for its rule


def _is_float(graph, node):
    return graph.get_dtype(node.input[0]) in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)


# Operator -> (graph, node) -> whether the node is done; else tf2onnx's own handler takes it.
HANDLERS = {"Select": _select_rows, "SelectV2": _select, "FloorMod": _floor_mod, "FloorDiv": _floor_div}
