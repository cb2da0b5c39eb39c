"""Between TensorFlow's values and plain ones: nested structures to named tensors, specs to JSON, errors to one line."""

import contextlib
import re

import numpy
import tensorflow as tf

BATCH = "batch"
TABLE = "it holds a lookup table, which only the route saved-model carries"
# What TensorFlow, Keras and tf2onnx say -> what it means, and what to do about it.
MEANING = {
    "Cannot convert a Tensor of dtype resource": (TABLE, ""),
    "Could not determine table shared name": (TABLE, ""),
    "Initialized table": (TABLE, ""),
    "incompatible with expected resource": (
        "it changes a variable while it runs, and ONNX has no variables",
        "make the state an input and an output of the model",
    ),
    "Attempting to add a duplicate function": ("TensorFlow 1's loader does not carry its loops and branches", ""),
    "has no attribute 'add_slot'": (
        "tf.saved_model.load does not open what an older Keras wrote with its optimizer",
        "",
    ),
    "Cannot convert a symbolic tf.Tensor": (
        "its code hands a tensor to numpy, which a graph cannot hold",
        "use the functions of tf or keras.ops on tensors",
    ),
    "as a Python `bool`": (
        "its Python code decides on the value of a tensor, which a graph does not have yet",
        "use tf.cond, tf.where or keras.ops.cond, or put the decision into a function decorated with tf.function",
    ),
    "NumPy array is not supported": (
        "its code hands a tensor to numpy, which a graph cannot hold",
        "use the functions of tf or keras.ops on tensors",
    ),
}


class Refused(ValueError):
    """What was handed in cannot be used or exported: a line that says why, a hint, and the user's line of code."""

    def __init__(self, message, hint="", where=""):
        super().__init__(message)
        self.hint, self.where = hint, where


def leaves(value, path=()):
    """(name, tensor) of everything in a structure of dicts, lists and tuples, in the order of tf.nest: keys sorted."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from leaves(value[key], (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, str(index)))
    elif value is not None:
        name = "_".join(path) or "0"
        yield ("output_" + name if name[0].isdigit() else name), value


def distinct(names, taken):
    """The names, with underscores where one is repeated or is an input's: a graph has room for each name once."""
    used, found = set(taken), []
    for name in names:
        while name in used:
            name += "_"
        used.add(name)
        found.append(name)
    return found


def stripped(name):
    """'serving_default_x:0' -> 'x'."""
    name = name.partition(":")[0]
    return name[len("serving_default_") :] if name.startswith("serving_default_") else name


def to_spec(name, dtype, shape):
    """The JSON of one input or output; an unknown first dimension is the batch."""
    sizes = None if shape is None or getattr(shape, "rank", 0) is None else list(shape)
    if sizes and sizes[0] is None:
        sizes[0] = BATCH
    return {"name": name, "dtype": tf.as_dtype(dtype).name, "shape": sizes}


def to_array(name, tensor):
    if isinstance(tensor, (tf.RaggedTensor, tf.SparseTensor)):
        hint = "make the output dense inside the model, as with .to_tensor()"
        raise Refused(f"the output {name} is a {type(tensor).__name__}, which ONNX does not have", hint)
    array = numpy.asarray(tensor)
    if array.dtype == object:
        return numpy.array([item.decode() for item in array.ravel()], dtype=object).reshape(array.shape)
    return array


def plain(error):
    """The one line of an error that says what is wrong, without colours, graph addresses and Keras' call arguments."""
    return _meaning(error)[0]


def advice(error):
    """What to do about an error, where that is known."""
    return getattr(error, "hint", "") or _meaning(error)[1]


def _meaning(error):
    text = re.sub(
        r"\x1b\[[0-9;]*m|\{\{[^}]*\}\}|make_sure failure: ", "", str(getattr(error, "message", None) or error)
    )
    known = [meaning for words, meaning in MEANING.items() if words in text]
    if known:
        return known[0]
    # Keras puts the configuration of the whole model before the error that a part of it gave.
    text = re.split(r"config=\{.*?\n\s*Exception encountered: ", text, flags=re.DOTALL)[-1]
    text = re.split(r"\n\s*(?:Call a|A)rguments received|\[Op:|\n\s*\[\[", text)[0].strip()
    where = ""
    if text.startswith("in user code:"):
        theirs = [place for place in re.findall(r'File "([^"]+)", line (\d+)', text) if "site-packages" not in place[0]]
        where = " ({}:{})".format(*theirs[-1]) if theirs else ""
        text = text.splitlines()[-1]
    text = re.sub(r"^Exception encountered when calling [^\n]*\n", "", text)
    return shortened(" ".join(text.split())) + where, ""


def shortened(text, size=400):
    """A long text with its middle left out: messages begin with what went wrong and end with what caused it."""
    return text if len(text) <= size else f"{text[: size * 2 // 3].rstrip()} … {text[-size // 3 :].lstrip()}"


def is_too_slow(error):
    """Whether the harness ended a call that took too long: that says nothing about the model."""
    return type(error).__name__ == "TooSlow"


@contextlib.contextmanager
def readable():
    """Errors of TensorFlow and Keras under their own names, but with a message of one line, and a hint where there is one."""
    try:
        yield
    except Exception as error:
        if isinstance(error, Refused) or is_too_slow(error):
            raise
        short = type(type(error).__name__, (Exception,), {"hint": advice(error)})(plain(error))
        raise short.with_traceback(error.__traceback__) from error
