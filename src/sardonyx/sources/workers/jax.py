"""Opens JAX functions and Flax and Equinox modules, asks them and exports them by jax2onnx; see _harness.py."""

import contextlib
import inspect
import os
import random
import re
import traceback
import warnings

import jax
import numpy

from ._harness import describe_error, is_user_code, other_values
from ._jax_graph import look
from ._jax_state import State, forget_traces, is_nnx, own_seeds
from ._jax_steps import enable_x64, has_loop, in_double, in_steps
from ._steady import roughly
from ._steady import steadiness as steadiness_of

DISTRIBUTIONS = ("jax", "jaxlib", "jax2onnx", "flax", "equinox", "onnx")
# How normalisation layers are written: as plain arithmetic, or as the operator that ONNX has for them.
NORMALIZATION = {"jax2onnx": "auto", "jax2onnx-native": "prefer_native"}
# What a trace ends with where Python code asks for a value that is known only in a call.
LOOKS_AT_VALUES = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)


# What a trace or jax2onnx says -> what it means (or nothing, if it says it well itself), and what to do about it.
FIXED = "give that dimension a number in --input, or write the code so that it does not ask for its size"
OTHERWISE = "write that step with other jax.numpy functions"
REASONS = (
    (
        "boolean conversion of traced",
        "its Python code decides on a value",
        "use jax.numpy.where, lax.cond or lax.while_loop",
    ),
    ("boolean indices must be concrete", "it picks by a mask, so that a size depends on values", "use jax.numpy.where"),
    (
        "__array__() was called on traced",
        "its code hands a traced array to numpy",
        "use jax.numpy in the place of numpy",
    ),
    (
        "where concrete value is expected",
        "its Python code asks for a value",
        "keep it an array, and compute with jax.numpy",
    ),
    ("cannot be interpreted as an integer", "its Python code counts up to a size that is open", FIXED),
    ("Symbolic dimension", "", FIXED),
    ("static", "", FIXED),
    ("primitive", "", OTHERWISE),
)


class Refused(Exception):
    """What was handed in cannot be used or exported: a line that says why, a hint, and the user's line of code."""

    def __init__(self, message, hint="", where=""):
        super().__init__(message)
        self.hint, self.where = hint, where


class Held:
    """A callable that is ready for inference, and the names of its arguments."""

    def __init__(self, function):
        self.function = function
        self.jitted = jax.jit(_pure(function))  # not every module can be a static argument itself
        self.names = _argument_names(function)
        self._loops = None  # whether it holds a loop that values end, once it was traced

    def arguments(self, inputs):
        """The inputs in the order of the arguments: by name where the names are the function's own, else as they come."""
        return list(self.in_order(inputs).values())

    def in_order(self, inputs):
        by_name = set(inputs) <= set(self.names)
        return {name: inputs[name] for name in (self.names if by_name else inputs) if name in inputs}

    def jaxpr(self, inputs):
        """The closed jaxpr of a call."""
        arguments = self.arguments(inputs)
        with enable_x64(_is_wide(arguments)):
            return self._trace(arguments)[0]

    def _trace(self, arguments):
        """(the closed jaxpr, the structure of the answer) of a call."""
        with self.undisturbed():
            return jax.make_jaxpr(_pure(self.function), return_shape=True)(*arguments)

    def answer(self, arguments):
        """The jitted function's answer; that of the plain function where its Python code looks at values.

        A loop that may not end is run step by step: compiled, it could not be ended from outside.
        """
        try:
            if self._loops is None:
                self._loops = has_loop(self._trace(arguments)[0])
            return _answer(self._in_steps if self._loops else self.jitted, arguments)
        except LOOKS_AT_VALUES:
            return _answer(self.function, arguments)

    def _in_steps(self, *arguments):
        closed, shape = self._trace(arguments)
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), in_steps(closed, arguments))

    @contextlib.contextmanager
    def undisturbed(self):
        """Leaves what the callable holds as it was: its Python code may write while it is traced."""
        before = State(self.function)
        try:
            yield
        finally:
            before.restore()


def _pure(function):
    """The callable as a function; of an NNX module, that of a copy, because no trace may write into the module itself."""
    if not is_nnx(function):
        return lambda *given: function(*given)
    from flax import nnx

    return lambda *given: nnx.clone(function)(*given)


def _is_wide(arguments):
    return any(array.dtype.itemsize == 8 for array in arguments)


def adopt(function, source):
    """The callable in inference mode. A module that was handed in stays as it was: a copy is switched."""
    if source.get("weights"):
        raise ValueError("a JAX callable carries its own parameters; load them in the factory and leave --weights out")
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"expected a function or a module with its parameters, got {function!r:.80}")
    return Held(_for_inference(function))


def load(source):
    raise Refused("a JAX model has no file of its own", "name a factory: file.py:name")


def seed(number):
    """Seeds Python and numpy; JAX has no seed of its own."""
    random.seed(number)
    numpy.random.seed(number)


def describe(held):
    """The names of the arguments; their shapes are not written anywhere."""
    return {"inputs": [{"name": name, "shape": None} for name in held.names], "outputs": [], "framework": "jax"}


def hints(held, inputs):
    """What the function compares these inputs with: `values` and `tables`; nothing of a function that cannot be traced."""
    try:
        return look(held.jaxpr(inputs), list(held.in_order(inputs))).described()
    except LOOKS_AT_VALUES:
        return {}


def steadiness(held, inputs):
    """The outputs that change when the same inputs come again, and what a call changes in the callable.

    The function's Python code runs again each time. If it gives the same jaxpr each time, the answers are the same.
    """
    arguments = held.arguments(inputs)

    def trace():
        forget_traces(held.function)
        return _fingerprint(jax.make_jaxpr(_pure(held.function))(*arguments))

    def call(values=arguments):
        forget_traces(held.function)
        return _answer(held.function, values)

    def others():
        call(held.arguments(other_values(inputs)))

    def again(ask, others=None):
        with held.undisturbed():
            return steadiness_of(ask, seed, lambda: State(held.function), others)

    with enable_x64(_is_wide(arguments)), own_seeds():
        try:
            if not _needs_calls(held, inputs) and not any(again(trace).values()):
                return {"random": [], "state": []}
            return again(call, others)
        except LOOKS_AT_VALUES:  # or keeps one of a trace for the next
            return again(call, others)
        finally:
            forget_traces(held.function)


def _needs_calls(held, inputs):
    """Whether a jaxpr does not show all that a call does: variables of a module change, Python is called back."""
    return is_nnx(held.function) or "callback" in str(held.jaxpr(inputs))


def _fingerprint(closed):
    """The steps of a jaxpr and its constants, as arrays with names."""
    keys = [str(constant.dtype).startswith("key<") for constant in closed.consts]
    constants = [jax.random.key_data(c) if key else c for c, key in zip(closed.consts, keys)]
    return [("steps", str(closed.jaxpr)), *((f"constant {n}", numpy.asarray(c)) for n, c in enumerate(constants))]


def predict(held, inputs, *, double=False):
    """The jitted function's answer; with `double`, that of its steps in float64. What the callable holds stays as it was."""
    arguments = held.arguments(inputs)
    with enable_x64(_is_wide(arguments)):
        with held.undisturbed():
            answer = held.answer(arguments)
        return _answer_in_double(held, inputs, answer) if double else answer


def _answer(function, arguments):
    answer = function(*arguments)
    return _named([numpy.asarray(leaf) for leaf in jax.tree_util.tree_leaves(answer)], answer)


def _answer_in_double(held, inputs, single):
    """[(name, array)] in float64. Raises NotImplementedError where a step has no such answer, or gives another one."""
    try:
        answers = in_double(held.jaxpr(inputs), held.arguments(inputs))
    except Exception as error:
        raise NotImplementedError(f"the function does not run in float64: {_first_words(error)}") from error
    for (name, narrow), wide in zip(single, answers):
        if narrow.dtype.kind == "f" and not roughly(narrow, wide):
            raise NotImplementedError(f"in float64 it computes another {name}")
    return [(name, wide) for (name, _), wide in zip(single, answers)]


def export(held, route, out, *, inputs, dynamic, opset, input_names=(), output_names=(), training=False):
    """Writes the function as ONNX."""
    if training:
        raise Refused("jax2onnx exports inference only", "leave --training out")
    ordered = held.in_order(inputs)
    options = {
        "inputs": [_spec(array, (dynamic or {}).get(name, {})) for name, array in ordered.items()],
        "input_names": list(ordered),
        "output_names": list(output_names) or [name for name, _ in predict(held, inputs)],
        "opset": opset,
        "enable_double_precision": _is_wide(ordered.values()),
        "normalization_mode": NORMALIZATION[route],
    }
    try:
        with held.undisturbed():
            _write(held.function, out, options)
    except Exception as error:
        raise _refusal(error) from error


def _write(function, out, options):
    """Writes the file; with copies of values that are several outputs, or an input and an output, where names would clash."""
    import jax2onnx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            jax2onnx.to_onnx(function, return_mode="file", output_path=out, **options)
        except ValueError as error:
            if "Conflicting custom names" not in str(error):
                raise
            jax2onnx.to_onnx(_with_copies(function), return_mode="file", output_path=out, **options)


def _with_copies(function):
    def copying(*given):
        seen = {id(value) for value in given}
        leaves, structure = jax.tree_util.tree_flatten(function(*given))
        for index, leaf in enumerate(leaves):
            if id(leaf) in seen:
                leaves[index] = jax.numpy.reshape(jax.numpy.expand_dims(leaf, 0), leaf.shape)
            seen.add(id(leaf))
        return jax.tree_util.tree_unflatten(structure, leaves)

    return copying


def _spec(array, axes):
    """The shape with the names of its dynamic dimensions, which jax2onnx turns into symbols."""
    named = {int(axis): dim for axis, dim in axes.items()}
    return jax.ShapeDtypeStruct(tuple(named.get(axis, size) for axis, size in enumerate(array.shape)), array.dtype)


def _named(leaves, answer):
    """The leaves of an answer under the keys that lead to them."""
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(answer)[0]]
    words = [
        "_".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", "")))) for key in path)
        for path in paths
    ]
    names = [word if word and not word[0].isdigit() else f"output_{word}" if word else "output" for word in words]
    return list(zip(names, leaves))


def _argument_names(function):
    """The positional arguments without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]


def _for_inference(function):
    packages = {cls.__module__.partition(".")[0] for cls in type(function).__mro__}
    modules = {cls.__module__ for cls in type(function).__mro__}
    if any(name.startswith("flax.nnx") for name in modules):
        from flax import nnx

        copy = nnx.clone(function)
        copy.eval()
        return copy
    if any(name.startswith("flax.linen") for name in modules) and getattr(function, "scope", None) is None:
        raise Refused(
            f"this {type(function).__name__} has no parameters yet",
            "bind them: return model.bind(variables) from the factory",
        )
    if "equinox" in packages:
        import equinox

        return equinox.nn.inference_mode(function)
    return function


def _refusal(error):
    """The exporter's reason in one line, what to do about it, and where in the user's code it is."""
    said, where = _first_words(error), describe_error(error)["where"]
    rule = _failing_rule(error)
    if rule:
        return Refused(f"jax2onnx: its rule for {rule} fails: {type(error).__name__}: {said}", OTHERWISE, where)
    known = next(((meaning, hint) for words, meaning, hint in REASONS if words in str(error)), ("", ""))
    return Refused(f"jax2onnx: {known[0] or said}", known[1], where)


def _failing_rule(error):
    """The step whose rule in jax2onnx raised by accident, and not to say that it cannot do something."""
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    known = [name for name in frames if is_user_code(name) or "jax2onnx" in name.split(os.sep)]
    accident = isinstance(error, (*LOOKS_AT_VALUES, AttributeError, IndexError, KeyError, ValueError))
    inside = bool(known) and "plugins" in known[-1].split(os.sep)
    return os.path.basename(known[-1])[: -len(".py")] if accident and inside else ""


def _first_words(error):
    """The first sentence of JAX's error, without its advice and its links."""
    text = re.split(r"\n\n|\nThe error occurred|\nThis error arises|-----|\(https?://|\nSee https?://", str(error))[0]
    return " ".join(text.split())[:300] or type(error).__name__
