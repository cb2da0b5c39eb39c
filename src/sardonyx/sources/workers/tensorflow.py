"""Opens and runs TensorFlow, Keras and TFLite models. Needs tensorflow, tf2onnx and numpy; see _harness.py."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # the reference is the CPU's; a GPU may round through TF32

import inspect
import logging
import re
import sys
import zipfile

import keras
import tensorflow as tf

from . import _tf2onnx
from ._harness import is_user_code
from ._lite import Lite
from ._tensors import Refused, plain, readable, to_array
from ._tf_network import Network, parameters, seed, tensors_of
from ._tf_state import keras_code

__all__ = ["adopt", "describe", "export", "hints", "load", "predict", "prepare", "seed", "steadiness", "watches"]

DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "keras", "tf2onnx")
SERVING = "serving_default"
NO_OUTPUT = (
    "Assert",
    "Const",
    "NoOp",
    "Placeholder",
)  # nodes of a frozen graph that nothing reads, and that answer nothing


def adopt(found, source):
    """The network of what a factory built: a Keras model, a tf.function, or a module with a `__call__`."""
    with readable():
        if isinstance(found, keras.Model):
            return of_keras(found, source["weights"])
        no_weights(source)
        if not callable(found):
            raise Refused(f"expected a Keras model or a tf.function, got {found!r:.80}")
        return of_function(found)


def load(source):
    opener = {"saved-model": open_saved_model, "graph": open_graph, "tflite": open_lite}.get(source["form"], open_keras)
    with readable():
        if opener is not open_keras:
            no_weights(source)
        return opener(source)


def no_weights(source):
    if source["weights"]:
        raise Refused("--weights fits Keras models only", "load the weights inside the factory")


def describe(model):
    """What the model takes, gives and holds, and what it compares its inputs with."""
    with readable():
        return model.describe()


def hints(model, inputs):
    """What a model that declares no inputs compares these with: `values`, `tables`, `words`, `sizes`."""
    with readable():
        return model.hints(inputs)


def steadiness(model, inputs):
    """The outputs that change when the same inputs come again, and what a call changes in the model."""
    require(model, inputs)
    with readable():
        return model.steadiness(inputs)


def predict(model, inputs, *, double=False):
    """What the framework answers, without training behaviour. Whatever the call changes in the model is put back."""
    require(model, inputs)
    with readable():
        model.find_state(inputs)
        with model.undisturbed():
            if double:
                return model.run_double(inputs)
            # Only code of functions is hidden by their graphs; the code of Keras' layers runs at every call.
            watched = sys.gettrace() is not None and model.model is None and model.code
            run = model.run_watched if watched else model.run
            return [(name, to_array(name, tensor)) for name, tensor in run(tensors_of(model, inputs))]


def watches(model):
    """Says of a file whether it is the user's own code, and not what TensorFlow made of it."""
    return lambda filename: is_user_code(filename) and "__autograph_generated_file" not in filename


def require(model, inputs):
    missing = [name for name in model.specs if name not in inputs]
    if missing:
        raise Refused(f"no value for the input {', '.join(missing)}; it takes {', '.join(model.specs)}")


def prepare(model, inputs, *, threads=None, **_):
    """A call of the graph, compiled by tf.function, or of TFLite's interpreter."""
    given = dict(zip(model.specs, inputs.values())) if model.specs and not set(model.specs) <= set(inputs) else inputs
    with readable():
        if isinstance(model, Lite):
            return model.prepare(given, threads)
        named = {name: tf.constant(given[name]) for name in (model.specs or given)}
        graph = tf.function(lambda values: model.function(*model.arrange(values)))
        graph(named)
        return lambda: graph(named)


def export(model, route, out, **options):
    with readable():
        return _tf2onnx.export(model, route, out, **options)


# Opening files


def open_keras(source):
    path, trust = source["path"], source["trust"]
    if path.endswith(".keras") and os.path.isfile(path) and not zipfile.is_zipfile(path):
        raise Refused(f"{path} is damaged: it is not a whole zip archive", "save it again with model.save(...)")
    try:
        model = keras.models.load_model(path, compile=False, safe_mode=not trust)
    except (TypeError, ValueError) as error:
        unknown = re.search(
            r"Could not locate (?:class|function) '(\w+)'|Unknown (?:layer|object): '?(\w+)", str(error)
        )
        if unknown:
            hint = f"build the model in a file that defines it and pass the weights: convert file.py:factory --weights {path}"
            raise Refused(f"{path} holds {unknown[1] or unknown[2]}, a class that is not Keras' own", hint) from error
        if "lambda" in str(error).lower() and not trust:
            hint = "pass --trust if you made it yourself, or write a SavedModel with model.export('folder')"
            raise Refused(f"{path} holds the bytecode of a Python lambda, which runs when opened", hint) from error
        if "No model config" in str(error):
            hint = "build the model in a file and pass the weights: convert file.py:factory --weights " + path
            raise Refused(f"{path} holds weights without their model", hint) from error
        raise
    return of_keras(model, source["weights"])


def open_saved_model(source):
    path = source["path"] if os.path.isdir(source["path"]) else os.path.dirname(source["path"]) or "."
    try:
        loaded = tf.saved_model.load(path)
    except Exception as error:
        # Folders of older Keras versions trip the object loader, but not the graph loader.
        logging.getLogger(__name__).warning("tf.saved_model.load: %s", plain(error))
        signature = choose(_tf2onnx.signatures(path), source["attribute"], path)
        return of_graph(*_tf2onnx.frozen(path, signature), folder=path, signature=signature)
    signature = choose(loaded.signatures, source["attribute"], path)
    function = loaded.signatures[signature]
    specs = dict(sorted(function.structured_input_signature[1].items()))
    origin = {"folder": path, "signature": signature, "owner": loaded}
    return Network(lambda named: function(**named), lambda named: [named], specs, **origin)


def choose(known, wanted, path):
    """The signature that was asked for, the default one, or the only one."""
    known = sorted(name for name in known if not name.startswith("__"))
    if not known:
        hint = "save it with signatures=module.__call__.get_concrete_function(...)"
        raise Refused(f"{path} has no signature, so nothing says which function to call", hint)
    wanted = wanted or (known[0] if len(known) == 1 else SERVING)
    if wanted not in known:
        raise Refused(f"{path} has no signature '{wanted}'", f"it has {', '.join(known)}; name one as {path}:NAME")
    return wanted


def open_graph(source):
    """A frozen graph. Its inputs are its placeholders, its outputs the nodes that nothing reads."""
    definition = tf.compat.v1.GraphDef()
    with open(source["path"], "rb") as file:
        try:
            definition.ParseFromString(file.read())
        except Exception as error:
            raise Refused(f"{source['path']} is a damaged or truncated graph", "freeze the graph again") from error
    read = {name.lstrip("^").partition(":")[0] for node in definition.node for name in node.input}
    inputs = [node.name for node in definition.node if node.op == "Placeholder" and node.name in read]
    outputs = [node.name for node in definition.node if node.op not in NO_OUTPUT and node.name not in read]
    if not inputs or not outputs:
        missing = "no output" if inputs else "no placeholder, so no input"
        raise Refused(f"{source['path']} has {missing}", "convert the SavedModel that it was frozen from")
    return of_graph(definition, *({name: name + ":0" for name in names} for names in (inputs, outputs)))


def open_lite(source):
    try:
        return Lite(source["path"])
    except (RuntimeError, ValueError) as error:
        foreign = re.search(r"Node number \d+ \((\w+)\) failed to prepare", str(error))
        if foreign:
            hint = "convert the SavedModel or Keras model that it was made from"
            raise Refused(f"{source['path']} holds {foreign[1]}, an operator beyond TFLite's own", hint) from error
        raise Refused(f"{source['path']}: {plain(error)}", "make the file again") from error


# Objects


def of_keras(model, weights=None):
    if weights:
        model.load_weights(weights)

    def function(*arguments):
        return model(*arguments, training=False)

    if not getattr(model, "inputs", None):
        return Network(function, binder(model.call), {}, model=model, code=keras_code(model))
    sequential = isinstance(model, keras.Sequential)
    structure = model.inputs[0] if sequential else model.input
    tensors = keras.tree.flatten(structure)
    specs = {tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype, tensor.name) for tensor in tensors}
    # The keys of a dict name the outputs; else the layers do, as Keras reports it.
    layers = [model.layers[-1].name] if sequential else None if isinstance(model.output, dict) else model.output_names
    pack = keras.tree.pack_sequence_as
    origin = {"model": model, "code": keras_code(model)}
    return Network(function, lambda named: [pack(structure, [named[name] for name in specs])], specs, layers, **origin)


def of_function(found):
    """A tf.function or a callable module; what it takes is known only where an input_signature says so."""
    function = found if hasattr(found, "get_concrete_function") or inspect.isfunction(found) else found.__call__
    python = getattr(function, "python_function", function)
    declared = getattr(function, "input_signature", None)
    if declared is None:
        return Network(function, binder(python), {}, owner=found, code=(found,))
    names = parameters(python)
    specs = {spec.name or names[index]: spec for index, spec in enumerate(tf.nest.flatten(declared))}
    pack = tf.nest.pack_sequence_as
    arrange = lambda named: pack(declared, [named[name] for name in specs])  # noqa: E731
    return Network(function, arrange, specs, owner=found, code=(found,))


def of_graph(definition, inputs, outputs, **origin):
    """A frozen graph; `inputs` and `outputs` map names to tensors of the graph."""
    function = _tf2onnx.graph_function(definition, inputs, outputs)
    specs = {name: tf.TensorSpec(tensor.shape, tensor.dtype) for name, tensor in zip(inputs, function.inputs)}
    origin["graph"] = (definition, inputs, outputs)
    return Network(function, lambda named: [named[name] for name in specs], specs, list(outputs), **origin)


def binder(python):
    """Named inputs -> positional arguments, by the names of the parameters; a single parameter may take them all as a dict."""
    names = parameters(python)

    def arrange(named):
        if set(named) <= set(names):
            return [named[name] for name in names if name in named]
        return [dict(named)] if len(names) == 1 and len(named) > 1 else list(named.values())

    return arrange
