"""A TensorFlow or Keras model as a function of named tensors: its answers, its graph, its state, its answers in float64."""

import contextlib
import inspect
import logging

import keras
import numpy
import tensorflow as tf

from ._harness import other_values
from ._steady import roughly, steadiness
from ._tensors import distinct, is_too_slow, leaves, plain, to_array, to_spec
from ._tf_double import InDouble
from ._tf_graph import look, state, writes
from ._tf_state import State, keras_variables

TRACES = 8  # graphs kept, for one size each where a model declares no inputs


def seed(number):
    """Seeds TensorFlow, Keras, numpy and Python."""
    keras.utils.set_random_seed(number)


class Network:
    """A model as a function of named tensors: `function(*arrange(named))`. Without `specs`, it takes whatever comes.

    `model` is the Keras model; `owner` the object that holds the function; `code` the user's Python objects and functions;
    `folder`, `signature` and `graph` are what the network was read from.
    """

    def __init__(self, function, arrange, specs, outputs=None, **origin):
        self.function, self.arrange, self.specs, self.outputs = function, arrange, specs, outputs
        self.model, self.folder, self.signature, self.graph, self.owner = map(
            origin.get, ("model", "folder", "signature", "graph", "owner")
        )
        self.code = origin.get("code", ())
        self._written = None  # the variables that a call may write, once they are known
        self._fills_table = False
        self._traces = {}

    def run(self, named):
        """[(name, tensor)] of the outputs, in the order in which TensorFlow flattens them."""
        return self.name(self.function(*self.arrange(named)), named)

    def run_watched(self, named):
        """The same without the graph of a function, so that its Python code runs and can be watched, if it runs like that."""
        tf.config.run_functions_eagerly(True)
        try:
            return self.run(named)
        except Exception as error:
            if is_too_slow(error):
                raise
            logging.getLogger(__name__).warning("not without a graph: %s", plain(error))
        finally:
            tf.config.run_functions_eagerly(False)
        return self.run(named)

    def name(self, answers, inputs):
        found = list(leaves(answers))
        names = self.outputs or [name for name, _ in found]
        return list(zip(distinct(names, inputs), (value for _, value in found)))

    def describe(self):
        """Inputs and outputs; what the graph compares them with; the variables that a call changes and reads."""
        inputs = [to_spec(name, spec.dtype, spec.shape) for name, spec in self.specs.items()]
        try:
            traced = self.trace(self.specs) if self.specs else None
        except Exception as error:  # its Python code may need values
            logging.getLogger(__name__).warning("no trace: %s", plain(error))
            traced = None
        if traced is None:
            return {"inputs": inputs, "outputs": []}
        seen = look(traced, list(self.specs))
        answers = self.name(traced.structured_outputs, self.specs)
        outputs = [to_spec(name, spec.dtype, spec.shape) for name, spec in answers]
        return {"inputs": inputs, "outputs": outputs, **seen.described(), **self._unsteady(seen)}

    def hints(self, inputs):
        """What the graph of a call on these inputs compares them with, of a model that declares none."""
        if self.specs:
            return {}
        try:
            return look(self.trace(specs_of(inputs)), list(inputs)).described()
        except Exception as error:  # its Python code may need values
            logging.getLogger(__name__).warning("no trace: %s", plain(error))
            return {}

    def trace(self, specs):
        """The graph of a call on tensors of these specs; the last few are kept."""
        key = _key(specs)
        if key not in self._traces:
            names = list(specs)
            traced = tf.function(lambda *tensors: self.function(*self.arrange(dict(zip(names, tensors)))))
            with self.undisturbed():
                concrete = traced.get_concrete_function(*specs.values())
            for old in list(self._traces)[: 1 - TRACES]:
                del self._traces[old]
            self._traces[key] = concrete
        return self._traces[key]

    def find_state(self, inputs):
        """Learns which variables a call may write: none, unless the graph has an operator that writes."""
        if self._written is not None:
            return
        try:
            traced = self.trace(self.specs or specs_of(inputs))
            operators = writes(traced)
            self._written = list(traced.graph.variables) if operators else []
            self._fills_table = any(operator.startswith("LookupTableInsert") for operator in operators)
        except Exception as error:  # it may run, but cannot be traced
            if is_too_slow(error):
                raise
            logging.getLogger(__name__).warning("no trace: %s", plain(error))
            self._written = keras_variables(self.model) if self.model is not None else []

    def state(self):
        """What the model holds now."""
        return State(self._written or (), self.code)

    @contextlib.contextmanager
    def undisturbed(self):
        """Leaves the model as it was, whatever a call changes."""
        before = self.state()
        try:
            yield
        finally:
            before.restore()

    def steadiness(self, inputs):
        """What differs between calls. A function is also run without its graph, so that its Python code runs at each call."""
        self.find_state(inputs)
        named, different = tensors_of(self, inputs), tensors_of(self, other_values(inputs))

        def call():
            return [(name, to_array(name, tensor)) for name, tensor in self.run(named)]

        def others():
            self.run(different)

        with self.undisturbed():
            found = steadiness(call, seed, self.state, others)
        if self._fills_table and found["random"]:  # it cannot be put back, so that each call finds it changed
            return {"random": [], "state": found["random"], "changes": ["a lookup table"]}
        return found if self.model is not None or not self.code else self._with_python(found, call)

    def _with_python(self, found, call):
        tf.config.run_functions_eagerly(True)
        try:
            with self.undisturbed():
                again = steadiness(call, seed, self.state)
        except Exception as error:  # it needs its graph
            logging.getLogger(__name__).warning("not without a graph: %s", plain(error))
            return found
        finally:
            tf.config.run_functions_eagerly(False)
        # With a signature, a function is traced once, and its Python values stay as they were then.
        kinds = ("random",) if self.specs else ("random", "state", "changes")
        return {**found, **{kind: sorted({*found[kind], *again[kind]}) for kind in kinds}}

    def _unsteady(self, seen):
        """`random`: operators that draw numbers; `state`: variables that a call writes, where a later answer depends on them."""
        found = {
            "random": sorted({f"{node.op} ({node.name.rpartition('/')[0] or node.name})" for node in seen.random}),
            "state": state(seen),
        }
        if found["state"]:
            try:
                depends = self.steadiness(example_of(self.specs))["state"]
            except Exception as error:  # an example of ones may not fit; the graph still shows the state
                logging.getLogger(__name__).warning("no call on an example: %s", plain(error))
                depends = True
            found["state"] = found["state"] if depends else []
        return {key: value for key, value in found.items() if value}

    def run_double(self, inputs):
        """[(name, array)] in float64. Raises NotImplementedError where the graph has no such answer, or gives another one."""
        with self.undisturbed():
            single = [(name, to_array(name, tensor)) for name, tensor in self.run(tensors_of(self, inputs))]
        answers = self._answers_in_double({name: inputs[name] for name in (self.specs or inputs)})
        for (name, narrow), wide in zip(single, answers):
            if narrow.dtype.kind == "f" and not roughly(narrow, wide):
                raise NotImplementedError(f"in float64 it computes another {name}, or in {wide.dtype}")
        return [(name, wide) for (name, _), wide in zip(single, answers)]

    def _answers_in_double(self, inputs):
        """The answers of the graph for any size, or else of the graph for these sizes alone."""
        reason = ""
        for specs in filter(None, (self.specs, specs_of(inputs))):
            try:
                answers = InDouble(self.trace(specs))(*(tf.constant(inputs[name]) for name in specs))
                return [to_array("", answer) for answer in answers]
            except Exception as error:
                reason = plain(error)
        raise NotImplementedError(f"the graph does not run in float64: {reason}")


def _key(specs):
    return tuple((name, str(spec.shape), spec.dtype) for name, spec in specs.items())


def specs_of(inputs):
    """The exact types and shapes of arrays."""
    return {
        name: tf.TensorSpec(array.shape, tf.string if array.dtype.kind in "USO" else array.dtype, name)
        for name, array in inputs.items()
    }


def tensors_of(model, inputs):
    return {name: tf.constant(inputs[name]) for name in (model.specs or inputs)}


def example_of(specs):
    """Arrays of ones, with two of whatever is open."""
    sizes = {name: [2 if size is None else size for size in spec.shape or ()] for name, spec in specs.items()}
    return {
        name: numpy.full(sizes[name], "a")
        if spec.dtype == tf.string
        else numpy.ones(sizes[name], spec.dtype.as_numpy_dtype)
        for name, spec in specs.items()
    }


def parameters(python):
    return [name for name in inspect.signature(python).parameters if name not in ("self", "training", "mask")]
