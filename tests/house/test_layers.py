"""Imports point downward: core below the stages, the stages below the command line, and plugins beside each other."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "src" / "sardonyx"

_STAGES_BELOW_BUNDLE = {
    "bench",
    "check",
    "compare",
    "convert",
    "inspect",
    "optimize",
    "quantize",
    "run",
    "sources",
    "view",
}

# Each folder, and the folders that it may import. Every folder may import core, the files beside these folders.
ALLOWED: dict[str, set[str]] = {
    "sources": set(),
    "run": set(),
    "check": set(),
    "inspect": set(),
    "doctor": set(),
    "gradient": set(),
    "training": {"gradient", "inspect", "run", "sources", "convert"},
    "bench": {"sources", "run"},
    "falsify": {"sources", "run"},
    "compare": {"sources", "run", "falsify"},
    "optimize": {"sources", "compare", "bench", "run"},
    "view": {"inspect", "compare", "bench", "run"},
    "quantize": {"run", "compare", "bench"},
    "convert": {"sources", "compare", "run", "check", "bench", "falsify"},
    "serve": {"run", "compare"},
    "package": {"run", "serve"},
    "bundle": _STAGES_BELOW_BUNDLE,
    "demo": _STAGES_BELOW_BUNDLE | {"bundle"},
    "cli": _STAGES_BELOW_BUNDLE | {"bundle", "demo", "doctor", "package", "serve", "training"},
}

# What core may import besides the standard library, anywhere, and what only inside a function of one file.
CORE_LIBRARIES = {"numpy", "onnx", "onnx_ir", "google"}
CORE_LAZILY = {
    "report.py": {"rich"},
    "agreement.py": {"ml_dtypes"},
    "arrays.py": {"safetensors"},
    "data_frame.py": {"pyarrow"},
    "golden.py": {"safetensors"},
    "images.py": {"PIL"},
    "warm.py": {"ml_dtypes"},
}

# Heavy libraries are imported at the top only by the files that exist for them; elsewhere inside a function.
HEAVY = {
    "torch", "tensorflow", "keras", "tf2onnx", "sklearn", "skl2onnx", "onnxmltools", "xgboost", "lightgbm", "catboost", "jax",
    "flax", "equinox", "jax2onnx", "pandas", "PIL", "rich", "openvino", "matplotlib",
}  # fmt: skip
HEAVY_AT_THE_TOP = ("sources/workers/", "bench/workers/", "demo/digits.py", "demo/tour.py")

# Folders whose files are plugins. Names with an underscore are their machinery, which they may share.
PLUGIN_FOLDERS = (
    "bench/variants",
    "check",
    "cli",
    "sources",
    "sources/workers",
    "gradient/rules",
    "optimize/passes",
    "optimize/candidates",
    "package",
    "quantize/calibrators",
    "quantize/schemes",
    "run/heads",
    "view/overlays",
)

# The package's own doors, which lead to every stage.
FACES = ("__init__.py", "__main__.py")

# Sent to other interpreters, which have no Sardonyx.
WITHOUT_US = ("sources/workers/", "bench/workers/")


@dataclass(frozen=True)
class Import:
    """One import: the file that says it, the module it names, and whether it runs at the top of the file."""

    file: str
    line: int
    module: str
    at_top: bool
    for_types: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


@cache
def _imports_of(file: Path, text: str) -> list[Import]:
    return list(_Reader(file).read(ast.parse(text)))


def imports(root: Path) -> Iterator[Import]:
    for path in sorted(root.rglob("*.py")):
        yield from _imports_of(path.relative_to(root), path.read_text())


class _Reader:
    def __init__(self, file: Path) -> None:
        self.file = file

    def read(self, node: ast.AST, at_top: bool = True, for_types: bool = False) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            for module in self._modules(child):
                line = getattr(child, "lineno", 0)
                yield Import(self.file.as_posix(), line, module, at_top, for_types)
            yield from self.read(child, at_top and not inside, for_types or types)

    def _modules(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            start = ".".join(("sardonyx", *self.file.parts[: -node.level])) + "." if node.level else ""
            return [f"{start}{node.module or ''}.{alias.name}".replace("..", ".") for alias in node.names]
        # `sardonyx.convert(...)` reaches the stage as surely as an import does.
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sardonyx":
            return [f"sardonyx.{node.attr}"]
        return []


def violations(root: Path) -> list[str]:
    """Every import in the tree that points the wrong way, in words."""
    folders = {path.name for path in root.iterdir() if (path / "__init__.py").exists()}
    plugins = {f"{folder}/{path.stem}" for folder in PLUGIN_FOLDERS for path in (root / folder).glob("[!_]*.py")}
    return [f"{found}: {why}" for found in imports(root) for why in _wrong(found, folders, plugins)]


def _wrong(found: Import, folders: set[str], plugins: set[str]) -> Iterator[str]:
    target = found.module.split(".")
    layer = found.file.split("/")[0] if "/" in found.file else "core"
    if target[0] == "sardonyx":
        yield from _wrong_inside(found, layer, target[1] if len(target) > 1 and target[1] in folders else "core")
        yield from _wrong_beside(found, plugins)
    elif target[0] not in sys.stdlib_module_names:
        yield from _wrong_outside(found, layer, target[0])


def _wrong_inside(found: Import, layer: str, target: str) -> Iterator[str]:
    if found.file.startswith(WITHOUT_US) and not found.module.startswith("sardonyx.sources.workers."):
        yield "it must run where Sardonyx is not installed"
    if found.file not in FACES and target not in ("core", layer, *ALLOWED.get(layer, ())):
        yield f"{layer} may not import {target}"


def _wrong_beside(found: Import, plugins: set[str]) -> Iterator[str]:
    me, folder = found.file.removesuffix(".py"), found.file.rpartition("/")[0]
    beside = (name for name in plugins if name.rpartition("/")[0] == folder)
    other = found.module.removeprefix("sardonyx.").replace(".", "/")
    if me in plugins and any(f"{other}/".startswith(f"{name}/") for name in beside):
        yield "plugins of one folder do not import each other"


def _wrong_outside(found: Import, layer: str, library: str) -> Iterator[str]:
    if found.for_types:
        return
    lazily = CORE_LAZILY.get(found.file, set())
    if layer == "core" and library not in CORE_LIBRARIES | lazily:
        yield f"core may not import {library}"
    if library in HEAVY and found.at_top and not found.file.startswith(HEAVY_AT_THE_TOP):
        yield f"{library} is heavy: import it inside the function that needs it"


def test_every_import_points_downward() -> None:
    assert violations(SOURCE) == []


def test_every_folder_has_its_row_and_every_row_its_folder() -> None:
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert folders == set(ALLOWED)


def test_the_table_has_no_circle() -> None:
    below: set[str] = set()
    while len(below) < len(ALLOWED):
        ready = {name for name, allowed in ALLOWED.items() if name not in below and allowed <= below}
        assert ready, f"these import each other: {set(ALLOWED) - below}"
        below |= ready


@pytest.mark.parametrize("file", [*CORE_LAZILY, *HEAVY_AT_THE_TOP])
def test_every_exception_is_still_needed(file: str) -> None:
    libraries = CORE_LAZILY.get(file, HEAVY)
    assert any(found.file.startswith(file) and found.module.split(".")[0] in libraries for found in imports(SOURCE))


FAULTS = {
    "core imports a stage": ("model.py", "from sardonyx.run.session import Session", "core may not import run"),
    "core imports a framework": ("model.py", "def f():\n    import torch", "core may not import torch"),
    "core imports a library of one file in another": (
        "model.py",
        "def f():\n    import rich",
        "core may not import rich",
    ),
    "core imports rich at the top": ("report.py", "import rich", "rich is heavy"),
    "a stage imports a stage beside it": ("check/a.py", "from sardonyx.run import session", "check may not import run"),
    "a stage imports one above": ("run/a.py", "from sardonyx import bundle", "run may not import bundle"),
    "a stage calls one above": ("run/a.py", "import sardonyx\nsardonyx.bundle.ship()", "run may not import bundle"),
    "a stage imports one above for types": (
        "run/a.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sardonyx.compare import judge",
        "run may not import compare",
    ),
    "a stage imports the command line": ("bundle/a.py", "from sardonyx.cli import main", "bundle may not import cli"),
    "a relative import climbs": ("run/a.py", "from ..compare import judge", "run may not import compare"),
    "a framework at the top": ("convert/a.py", "import torch", "torch is heavy"),
    "a plugin imports another": ("check/a.py", "from sardonyx.check.other import x", "plugins of one folder"),
    "a plugin imports another from the folder": ("cli/a.py", "from sardonyx.cli import other", "plugins of one folder"),
    "a worker imports us": ("sources/workers/a.py", "from sardonyx.errors import InputError", "not installed"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_caught(tmp_path: Path, fault: str) -> None:
    file, text, words = FAULTS[fault]
    for folder in (*ALLOWED, "sources/workers"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
        (tmp_path / folder / "other.py").touch()
    assert violations(tmp_path) == []
    (tmp_path / file).write_text(text)
    found = violations(tmp_path)
    assert len(found) == 1
    assert file in found[0]
    assert words in found[0]


def test_what_is_allowed_is_not_caught(tmp_path: Path) -> None:
    for folder in ALLOWED:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "__init__.py").write_text("from sardonyx.check import check")
    (tmp_path / "model.py").write_text("import os\nimport numpy\nfrom google.protobuf.message import DecodeError")
    (tmp_path / "report.py").write_text("def f():\n    import rich")
    (tmp_path / "convert" / "a.py").write_text(
        "import sardonyx\nfrom sardonyx.run.session import Session\nsardonyx.check('m')"
    )
    (tmp_path / "check" / "kernels.py").write_text("from sardonyx.check._places import Place")
    assert violations(tmp_path) == []
