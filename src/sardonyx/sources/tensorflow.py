"""TensorFlow, Keras and TFLite models. They always run in a process of their own: the import alone costs seconds and 700 MB."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

from sardonyx.errors import NotFound, SourceFailed
from sardonyx.sources._recognise import Subject
from sardonyx.sources.workers._silence import silent

REQUIRES = "tensorflow"
SAFER = "build it in file.py:factory and load its weights there, or convert it to ONNX where it was made"

_KERAS, _SAVED = ("keras", "function", "saved-model"), ("saved-model", "function", "v1-loader")
ROUTES = {
    "keras": _KERAS, "pickle-keras": _KERAS, "h5": _KERAS, "live-keras": _KERAS, "factory": _KERAS,
    "saved-model": _SAVED, "live-custom": _SAVED, "live-function": _SAVED, "graph": ("v1-loader", "function"),
    "tflite": ("tflite",),
}  # fmt: skip
MODELS = {("keras", "Model"), ("tf_keras", "Model")}
FUNCTIONS = {("tensorflow", "Module"), ("tensorflow", "PolymorphicFunction"), ("tensorflow", "ConcreteFunction")}

HDF5 = b"\x89HDF\r\n\x1a\n"
# GraphDef: field 1 holds a NodeDef, whose first fields are its name and its operator.
_LENGTH = rb"[\x80-\xff]*[\x00-\x7f]"
_GRAPH = re.compile(rb"\x0a" + _LENGTH + rb"\x0a" + _LENGTH + rb"[\w./>-]+\x12" + _LENGTH + rb"[A-Z_]\w+")
# What Keras writes where a layer holds the bytecode of a Python lambda.
_BYTECODE = b'"__lambda__"'


def accepts(subject: Subject) -> str | None:
    """The form of a TensorFlow, Keras or TFLite model: from the class of an object, else from the bytes of a file."""
    if subject.path is None:
        return _live(subject.value)
    if subject.path.is_dir():
        return _folder(subject.path, subject.members)
    if subject.head[4:8] == b"TFL3":
        return "tflite"
    if subject.head.startswith(HDF5):
        return "h5"
    if subject.path.name == "saved_model.pb":
        return "saved-model"
    if "config.json" in subject.members and "model.weights.h5" in subject.members:
        return "pickle-keras" if _holds_bytecode(subject.path) else "keras"
    if subject.path.suffix == ".keras":  # damaged, or another file under this name: the worker says which
        return "keras"
    return "graph" if _GRAPH.match(subject.head) else None


def routes(form: str) -> tuple[str, ...]:
    """The ways to ONNX, the most trusted first."""
    return ROUTES[form]


def stage(value: Any, folder: Path) -> tuple[str, Path]:
    """A live object written into `folder` for the other process to open: its form there, and its path."""
    try:
        with silent():
            if _live(value) == "live-keras":
                value.save(folder / "model.keras")
                return "keras", folder / "model.keras"
            save = _save_custom if _live(value) == "live-custom" else _save_function
            save(value, str(folder / "saved_model"))
            return "saved-model", folder / "saved_model"
    except SourceFailed:
        raise
    except Exception as error:
        raise SourceFailed(
            f"{type(value).__qualname__} could not be saved: {type(error).__name__}: {' '.join(str(error).split())[:300]}",
            hint="write a function that builds it in a file, and convert file.py:function",
        ) from error


def _folder(path: Path, members: tuple[str, ...]) -> str | None:
    if "saved_model.pb" in members or "saved_model.pbtxt" in members:
        return "saved-model"
    if "config.json" in members and "model.weights.h5" in members:
        return "pickle-keras" if _holds_bytecode(path) else "keras"
    if "variables" in members:
        raise NotFound(
            f"{path} looks like a SavedModel but has no saved_model.pb",
            hint="copy the whole folder: saved_model.pb beside variables/",
        )
    return None


def _holds_bytecode(path: Path) -> bool:
    if path.is_dir():
        return _BYTECODE in (path / "config.json").read_bytes()
    try:
        with zipfile.ZipFile(path) as archive:
            return _BYTECODE in archive.read("config.json")
    except zipfile.BadZipFile:
        return False  # damaged: the worker says so


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _live(value: Any) -> str | None:
    """The form of an object. A Keras model is custom where Keras alone could not read it back from a file."""
    kinds = {(_package(kind), kind.__name__) for kind in type(value).__mro__}
    if kinds & MODELS:
        layers = [value, *value._flatten_layers(include_self=False)]
        return "live-keras" if all(map(_known_to_keras, layers)) else "live-custom"
    return "live-function" if kinds & FUNCTIONS else None


def _known_to_keras(layer: Any) -> bool:
    return _package(type(layer)) == "keras" and type(layer).__name__ != "Lambda"


def _save_custom(model: Any, path: str) -> None:
    """A SavedModel needs no class of the user's to be read back."""
    if not model.built:
        raise SourceFailed(
            f"{type(model).__qualname__} has not been built, so its inputs are unknown",
            hint="call it once on an example, or convert file.py:function with --input",
        )
    model.export(path, verbose=False)


def _save_function(value: Any, path: str) -> None:
    import tensorflow as tf  # already imported by whoever made the object

    function = value.__call__ if isinstance(value, tf.Module) else value
    if hasattr(function, "get_concrete_function"):
        if getattr(function, "input_signature", None) is None:
            raise SourceFailed(
                f"{type(value).__qualname__} does not say which inputs it takes",
                hint="give it a signature: @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name='x')])",
            )
        function = function.get_concrete_function()
    holder = tf.Module()
    holder.owner, holder.variables_held = value, list(function.variables)  # the saver asks who owns each variable
    tf.saved_model.save(holder, path, signatures=function)
