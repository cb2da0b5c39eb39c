"""What a TensorFlow graph compares its inputs with: thresholds, sizes, tables, vocabularies; and which variables it changes.

Every tensor of the graph gets a `Fact`. Functions inside the graph are walked with the facts of their arguments.
"""

import re

import numpy
import tensorflow as tf

from ._facts import SMALL, WORDS, Fact, Findings, of_constant, stepped, together

NODES = 50000  # nodes walked, counting a function again for each call
RANDOM_STATE = re.compile(r"seed_generator_state|StateVar|rng_state", re.IGNORECASE)
WRITES = re.compile(
    r"Assign\w*VariableOp|Resource(Scatter|Apply|StridedSliceAssign)\w*|Rng(ReadAndSkip|Skip)|LookupTableInsert\w*"
)
DRAWS = re.compile(r"Random(?!Dataset|Crop)\w*|TruncatedNormal|Multinomial|ParameterizedTruncatedNormal|RngReadAndSkip")
STATELESS = re.compile(r"Stateless(Random(?!Get)|TruncatedNormal|Multinomial|Parameterized)\w*")
COMPARES = {
    "Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "ApproximateEqual", "Maximum", "Minimum", "ClipByValue",
    "FloorMod", "FloorDiv", "Mod", "TruncateMod", "TruncateDiv", "RightShift", "LeftShift", "OneHot", "UnsortedSegmentSum",
    "SegmentSum", "InTopKV2",
}  # fmt: skip
# What is in their first input is in their output, perhaps elsewhere or summed up.
CARRY = {
    "Abs", "BroadcastTo", "Cast", "Ceil", "CheckNumerics", "EnsureShape", "ExpandDims", "Floor", "Gather", "GatherNd", "GatherV2",
    "Identity", "IdentityN", "Max", "Mean", "Min", "Pack", "Pad", "PadV2", "PreventGradient", "Prod", "RaggedGather",
    "RegexReplace", "Reshape", "Reverse", "ReverseV2", "Rint", "Round", "Slice", "Snapshot", "Split", "SplitV", "Squeeze",
    "StaticRegexReplace", "StopGradient", "StridedSlice", "StringLower", "StringSplit", "StringSplitV2", "StringStrip",
    "StringUpper", "Sum", "Tile", "TopKV2", "Transpose", "Unpack",
}  # fmt: skip
STEPS = {
    "Add": "add", "AddV2": "add", "BiasAdd": "add", "Sub": "subtract", "Mul": "multiply", "RealDiv": "divide",
    "FloorDiv": "divide", "Neg": "negate", "Square": "square", "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Sigmoid": "sigmoid",
    "Tanh": "tanh",
}  # fmt: skip
SIZES = {"Shape", "ShapeN", "Size", "Rank"}
CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
BRANCHES = {"If", "StatelessIf", "Case", "StatelessCase"}
LOOPS = {"While", "StatelessWhile"}


def look(concrete, names):
    """The findings about a concrete function whose first inputs have these names."""
    definition = concrete.graph.as_graph_def()
    integers = {name for name, tensor in zip(names, concrete.inputs) if tensor.dtype.is_integer}
    walk = Walk({function.signature.name: function for function in definition.library.function}, Findings(integers))
    placeholders = [tensor.op.name for tensor in concrete.inputs]
    facts = dict(zip(placeholders, (Fact({name}) for name in names)))
    facts.update(zip(placeholders[len(names) :], map(_captured, captures(concrete))))
    ends = walk.graph(definition.node, facts, [tensor.name for tensor in concrete.outputs])
    walk.findings.read = together(ends).reads
    return walk.findings


def state(findings):
    """The names of the variables that a call both changes and answers from."""
    return sorted(name for name in findings.written & findings.read if not RANDOM_STATE.search(name))


def writes(concrete):
    """The operators of the graph, and of the functions inside it, that may change a variable or a table."""
    definition = concrete.graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return {node.op for node in nodes if WRITES.fullmatch(node.op)}


def captures(concrete):
    """What the function captured: variables where they are known, else tensors."""
    variables = {id(variable.handle): variable for variable in concrete.graph.variables}
    return [variables.get(id(value), value) for value in concrete.captured_inputs]


def _captured(value):
    held = isinstance(value, tf.Variable) or value.dtype == tf.resource
    return Fact(held=value) if held else of_constant(value.numpy()) if hasattr(value, "numpy") else Fact()


class Walk:
    """Goes through a graph in its own order, which is the order of computation."""

    def __init__(self, functions, findings):
        self._functions, self._left, self.findings = functions, NODES, findings

    def graph(self, nodes, facts, ends):
        """The facts of the tensors that `ends` names, given those of some nodes."""
        for node in nodes:
            if self._left <= 0:
                break
            self._left -= 1
            if node.name not in facts:
                given = [_pick(facts, name) for name in node.input if not name.startswith("^")]
                facts[node.name] = self.node(node, given)
        return [_pick(facts, name) for name in ends]

    def function(self, name, given):
        """The facts of a function's results."""
        function = self._functions.get(name)
        if function is None:
            return []
        arguments = [argument.name for argument in function.signature.input_arg]
        results = [function.ret[argument.name] for argument in function.signature.output_arg]
        return self.graph(_ordered(function.node_def), dict(zip(arguments, given)), results)

    def node(self, node, given):
        """The fact of a node's outputs; a list of facts for a node that calls a function."""
        operator = node.op
        self.notice(node, given)
        if operator == "Const":
            return _constant(node)
        if operator == "ReadVariableOp":
            return _read(given[0].held)
        if operator in CALLS:
            return self.function(node.attr["f"].func.name, given)
        if operator in BRANCHES:
            return self.branch(node, given)
        return self.loop(node, given) if operator in LOOPS else _fact(operator, given)

    def notice(self, node, given):
        """Adds to the findings what the node compares, indexes, looks up, draws or writes."""
        operator, findings = node.op, self.findings
        if DRAWS.fullmatch(operator) or (STATELESS.fullmatch(operator) and _is_seeded_anew(given)):
            findings.random.append(node)
        if WRITES.fullmatch(operator) and given and isinstance(given[0].held, tf.Variable):
            findings.written.add(_name(given[0].held))
        if operator in COMPARES:
            findings.compare(given)
        if operator == "Bucketize":
            for boundary in node.attr["boundaries"].list.f:
                findings.number(given[0], boundary)
        if operator in ("GatherV2", "Gather", "ResourceGather"):
            findings.gather(_read(given[0].held) if operator == "ResourceGather" else given[0], given[1])
        if operator.startswith("LookupTableFind") and given[0].held is not None:
            self.look_up(_table_keys(given[0].held, node), given[1])

    def look_up(self, keys, fact):
        for name in fact.inputs:
            if keys and isinstance(keys[0], str):
                self.findings.words.setdefault(name, []).extend(sorted(keys))
            else:
                self.findings.values.setdefault(name, []).extend(sorted(map(float, keys)))

    def branch(self, node, given):
        """The results of all branches, which also depend on what chooses."""
        if "Case" in node.op:
            branches = [function.name for function in node.attr["branches"].list.func]
            for index in range(-1, len(branches) + 1) if given[0].inputs else ():
                self.findings.number(given[0], index)
        else:
            branches = [node.attr[side].func.name for side in ("then_branch", "else_branch")]
        ends = [self.function(name, given[1:]) for name in branches]
        return [together((*facts, given[0])) for facts in zip(*ends)]

    def loop(self, node, given):
        """What a loop carries: what it starts with, and what one round makes of it. A counter depends on no input."""
        body = node.attr["body"].func.name
        started = [fact if fact.inputs or fact.held is not None else Fact(reads=fact.reads) for fact in given]
        mixed = [_carried(*facts) for facts in zip(started, self.function(body, started))] or started
        self.function(node.attr["cond"].func.name, mixed)
        return [_carried(*facts) for facts in zip(mixed, self.function(body, mixed))] or mixed


def _fact(operator, given):
    """The fact of an operator's outputs."""
    if operator in SIZES:
        return together(given).after(sized=True, steps=())
    if (
        operator in ("Identity", "Cast", "Reshape", "ExpandDims", "Squeeze", "Pack")
        and given
        and not together(given).inputs
    ):
        first = given[0]
        return Fact(constant=first.constant, rows=first.rows, held=first.held, reads=first.reads)
    if operator in CARRY and given:
        return together(given).after(steps=given[0].steps)
    return stepped(STEPS.get(operator, ""), given)


def _carried(start, end):
    return start if start.held is not None else together([start, end])


def _is_seeded_anew(given):
    """Whether a seed comes from a variable that moves on with each draw."""
    return any(RANDOM_STATE.search(name) for fact in given for name in fact.reads)


def _pick(facts, name):
    """The fact of `node`, `node:1` or, inside a function, `node:output:1`."""
    node, _, rest = name.partition(":")
    fact = facts.get(node)
    if not isinstance(fact, list):
        return fact or Fact()
    index = int(rest.rpartition(":")[2] or 0)
    return fact[index] if index < len(fact) else together(fact)


def _ordered(nodes):
    """The nodes of a function, each after those that it reads: a function of a file may have them in any order."""
    known = {node.name: node for node in nodes}
    ordered, placed = [], set()
    for first in nodes:
        waiting, entered = [first], set()
        while waiting:
            node = waiting[-1]
            sources = (name.lstrip("^").partition(":")[0] for name in node.input)
            missing = [known[name] for name in sources if name in known and name not in placed and name not in entered]
            entered.add(node.name)
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if node.name not in placed:
                placed.add(node.name)
                ordered.append(node)
    return ordered


def _constant(node):
    tensor = node.attr["value"].tensor
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    large = numpy.prod(sizes, dtype=numpy.int64) > SMALL
    return Fact(rows=sizes[0]) if large else of_constant(tf.make_ndarray(tensor))


def _read(variable):
    """A variable's value: its numbers where it is small, its rows where it is a table."""
    if not isinstance(variable, tf.Variable):
        return Fact()
    count, shape = variable.shape.num_elements(), variable.shape
    reads = frozenset({_name(variable)})
    if count is not None and count <= SMALL:
        return Fact(constant=variable.numpy(), rows=shape[0] if shape.rank else None, reads=reads)
    return Fact(rows=shape[0] if shape.rank else None, reads=reads)


def _name(variable):
    return variable.name.partition(":")[0]


def _table_keys(handle, node):
    """The keys of a lookup table; none of a table that cannot be read, as before it is initialised."""
    types = {"Tkeys": tf.as_dtype(node.attr["Tin"].type), "Tvalues": tf.as_dtype(node.attr["Tout"].type)}
    try:
        keys, _ = tf.raw_ops.LookupTableExportV2(table_handle=handle, **types)
    except tf.errors.OpError:
        return []
    found = keys.numpy().ravel()[:WORDS].tolist()
    return [key.decode(errors="replace") if isinstance(key, bytes) else key for key in found]
