"""Whether an input is the same as last time: hashes of sources, data and files. None where nobody can say."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import callables, data_frame, history
from sardonyx.files import sha256
from sardonyx.sources import Source

# The distributions that decide what a source of each kind computes and how it is exported.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "keras", "tf2onnx"),
    "sklearn": ("scikit-learn", "skl2onnx"),
    "boosting": ("xgboost", "xgboost-cpu", "lightgbm", "catboost", "onnxmltools", "skl2onnx"),
    "jax": ("jax", "jaxlib", "flax", "jax2onnx"),
    "onnx": (),
}


def combined(parts: Mapping[str, Any]) -> str:
    """One hash of named facts."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def of_source(source: Source) -> str | None:
    """What the model is made of: its file, or its code with the files that it imports, and its weights."""
    if source.live or source.path is None:
        return None
    code = _module_file(source.path) if source.attribute is not None and not source.path.exists() else source.path
    if code is None:
        return None
    parts = {"code": of_files([*_imported(code)] if code.suffix == ".py" else [code]), "attribute": source.attribute}
    return combined({**parts, "weights": of_files([source.weights]) if source.weights is not None else None})


def of_data(data: Any) -> str | None:
    """What the data says: of a file or folder its bytes, of a function the code that makes it, of a table its columns."""
    if data is None:
        return "none"
    if isinstance(data, str | Path):
        if Path(data).exists():
            return of_files([Path(data)])
        module, _, name = str(data).rpartition(":")
        code = Path(module) if module.endswith(".py") else _module_file(Path(module)) if module else None
        known = code is not None and callables.is_reference(str(data)) and code.is_file()
        return combined({"code": of_files(_imported(code)), "name": name}) if known and code is not None else None
    if data_frame.is_frame(data):
        columns = data_frame.of_object(data).values()
        return combined({column.name: [_of_array(column.values), _of_array(column.missing)] for column in columns})
    if isinstance(data, Mapping):
        return combined({str(name): _of_array(value) for name, value in data.items()})
    return None


def of_files(paths: Iterable[Path]) -> str:
    """The names inside and the bytes of files and folders."""
    parts: dict[str, str] = {}
    for path in paths:
        inside = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
        parts |= {str(item.relative_to(path.parent)): sha256(item) for item in inside}
    return combined(parts)


def libraries(source: Source) -> dict[str, str]:
    """The versions of what the source's framework is made of, as installed here."""
    return {
        name: version
        for name in LIBRARIES.get(source.plugin, ())
        if (version := history.installed_version(name)) is not None
    }


def _imported(file: Path) -> Iterator[Path]:
    """The file and every file beside it that it imports, directly or not."""
    waiting, seen = [file], set[Path]()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        yield path
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # the source itself will say so
            continue
        for name in _modules(tree):
            place = file.parent.joinpath(*name.split("."))
            waiting += [place.with_suffix(".py"), place / "__init__.py"]


def _modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from filter(None, [node.module, *(".".join(filter(None, [node.module, a.name])) for a in node.names)])


def _module_file(name: Path) -> Path | None:
    """The source file of a module that is given by its dotted name."""
    try:
        spec = importlib.util.find_spec(str(name))
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _of_array(value: Any) -> str:
    array = np.asarray(value)
    data = repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
    return f"{array.dtype}{list(array.shape)}{hashlib.sha256(data).hexdigest()}"
