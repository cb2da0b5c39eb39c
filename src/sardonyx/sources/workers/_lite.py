"""A TFLite file in its interpreter."""

import contextlib

import numpy
import tensorflow as tf

from ._steady import differing
from ._tensors import stripped, to_spec

# Operators that keep something from one call to the next: variables, and the states of recurrent layers.
STATEFUL = {"ASSIGN_VARIABLE", "LSTM", "RNN", "SVDF"}
STATEFUL_ENDINGS = ("_SEQUENCE_LSTM", "_SEQUENCE_RNN")
RANDOM = {"RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"}
COMPARES = {
    "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOT_EQUAL", "MAXIMUM", "MINIMUM", "FLOOR_MOD", "FLOOR_DIV",
    "ONE_HOT",
}  # fmt: skip
LOOKUPS = {"GATHER": (0, 1), "EMBEDDING_LOOKUP": (1, 0)}  # the places of the table and of the indices
SMALL = 64


class Lite:
    """Runs a TFLite file. Quantised models take and give their integers."""

    model, outputs, specs, code = None, None, (), ()

    def __init__(self, path):
        self.path = path
        self.interpreter = tf.lite.Interpreter(path)
        self.interpreter.allocate_tensors()
        self.steps = self.interpreter._get_ops_details()  # in the order of computation
        kinds = {step["op_name"] for step in self.steps}
        self.random = sorted(kinds & RANDOM)
        self.stateful = sorted(kind for kind in kinds if kind in STATEFUL or kind.endswith(STATEFUL_ENDINGS))
        names = self._signature()
        inputs, outputs = self.interpreter.get_input_details(), self.interpreter.get_output_details()
        self.specs = {names.get(detail["index"], stripped(detail["name"])): detail for detail in inputs}
        self.answers = {names.get(detail["index"], stripped(detail["name"])): detail for detail in outputs}

    def run(self, named):
        """[(name, array)] of the outputs in the order of the file; by a fresh interpreter where one keeps something."""
        return self._run(tf.lite.Interpreter(self.path) if self.stateful or self.random else self.interpreter, named)

    def _run(self, interpreter, named):
        for name, detail in self.specs.items():
            interpreter.resize_tensor_input(detail["index"], named[name].shape)
        interpreter.allocate_tensors()
        self._set(interpreter, named)
        return self._invoke(interpreter)

    def _set(self, interpreter, named):
        for name, detail in self.specs.items():
            interpreter.set_tensor(detail["index"], named[name].numpy())

    def _invoke(self, interpreter):
        interpreter.invoke()
        return [(name, interpreter.get_tensor(detail["index"])) for name, detail in self.answers.items()]

    def find_state(self, inputs):
        """Nothing to find: every call of a stateful file has an interpreter of its own."""

    @contextlib.contextmanager
    def undisturbed(self):
        yield

    def run_double(self, inputs):
        raise NotImplementedError("TFLite's interpreter computes in the types of its file")

    def steadiness(self, inputs):
        """What differs when one interpreter is called again, and when another one is."""
        named = {name: tf.constant(inputs[name]) for name in self.specs}
        interpreter = tf.lite.Interpreter(self.path)
        first = self._run(interpreter, named)
        self._set(interpreter, named)
        again = differing(first, self._invoke(interpreter))
        fresh = differing(first, self._run(tf.lite.Interpreter(self.path), named))
        random = again | fresh if self.random else fresh
        changes = self.stateful if again - random else []
        return {"random": sorted(random), "state": sorted(again - random), "changes": changes}

    def prepare(self, named, threads=None):
        """A call that sets the inputs, runs, and takes the outputs, in an interpreter of its own with so many threads."""
        twin = tf.lite.Interpreter(self.path, num_threads=threads)
        for name, detail in self.specs.items():
            twin.resize_tensor_input(detail["index"], named[name].shape)
        twin.allocate_tensors()
        places = [(detail["index"], named[name]) for name, detail in self.specs.items()]
        wanted = [detail["index"] for detail in self.answers.values()]

        def answer():
            for index, array in places:
                twin.set_tensor(index, array)
            twin.invoke()
            return [twin.get_tensor(index) for index in wanted]

        return answer

    def describe(self):
        """Inputs and outputs; a quantised one has its `scale` and `zero_point`. And what the operators compare with."""
        sides = {"inputs": list(map(_spec, self.specs.items())), "outputs": list(map(_spec, self.answers.items()))}
        more = {**self._compared(), "random": self.random}
        return {**sides, **{key: value for key, value in more.items() if value}}

    def hints(self, inputs):
        """Nothing beyond `describe`: a file declares its inputs."""
        return {}

    def _compared(self):
        """`values` and `tables`: the constants that tensors which depend on an input are compared with, or index into."""
        behind = {detail["index"]: {name} for name, detail in self.specs.items()}
        made = {index for step in self.steps for index in step["outputs"]}
        values, tables = {}, {}
        for step in self.steps:
            given = [int(index) for index in step["inputs"] if index >= 0]
            constants = [index for index in given if index not in behind and index not in made]
            names = set().union(*(behind.get(index, ()) for index in given))
            if step["op_name"] in COMPARES:
                for name in names:
                    values.setdefault(name, []).extend(number for index in constants for number in self._numbers(index))
            table, indices = LOOKUPS.get(step["op_name"], (None, None))
            if table is not None and given[table] in constants:
                rows = int(self._shape(given[table])[0])
                tables.update((name, max(rows, tables.get(name, 0))) for name in behind.get(given[indices], ()))
            behind.update((int(index), names) for index in step["outputs"])
        return {
            "values": {name: list(dict.fromkeys(found)) for name, found in values.items() if found},
            "tables": tables,
        }

    def _shape(self, index):
        return self.interpreter._get_tensor_details(index, 0)["shape"]

    def _numbers(self, index):
        if numpy.prod(self._shape(index)) > SMALL:
            return []
        array = self.interpreter.get_tensor(index)
        return [float(number) for number in array.ravel()] if array.dtype.kind in "iuf" else []

    def _signature(self):
        """Tensor index -> the name it has in the only signature."""
        if len(self.interpreter.get_signature_list()) != 1:
            return {}
        runner = self.interpreter.get_signature_runner()
        sides = {**runner.get_input_details(), **runner.get_output_details()}
        return {detail["index"]: name for name, detail in sides.items()}


def _spec(item):
    name, detail = item
    sizes = [None if size < 0 else int(size) for size in detail["shape_signature"]]
    scale, zero_point = detail["quantization"]
    quantised = {"scale": float(scale), "zero_point": int(zero_point)} if scale else {}
    return {**to_spec(name, detail["dtype"], sizes), **quantised}
