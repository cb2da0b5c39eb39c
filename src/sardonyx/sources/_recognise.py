"""What a source is, told from its bytes, its name or its type, without importing the framework."""

from __future__ import annotations

import ast
import importlib.util
import zipfile
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sardonyx import registry
from sardonyx.errors import NotFound, UnknownSource, Untrusted, UsageError
from sardonyx.sources import _pickles

PACKAGE = "sardonyx.sources"
# The package that a file imports -> the plugin that runs what its factory builds.
FRAMEWORKS = {
    "torch": "torch", "tensorflow": "tensorflow", "keras": "tensorflow", "tf_keras": "tensorflow", "sklearn": "sklearn",
    "xgboost": "boosting", "lightgbm": "boosting", "catboost": "boosting", "jax": "jax", "flax": "jax", "equinox": "jax",
}  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """What plugins look at: a live object's type, or a path with its first bytes and the names inside, if it is a zip."""

    value: Any = None
    path: Path | None = None

    @cached_property
    def modules(self) -> frozenset[str]:
        """The top-level packages that define the object's class and its parents; empty for a file."""
        if self.path is not None:
            return frozenset()
        kinds = (self.value if isinstance(self.value, type) else type(self.value)).__mro__
        return frozenset(kind.__module__.partition(".")[0] for kind in kinds) - {"builtins", "typing", "abc"}

    @cached_property
    def head(self) -> bytes:
        if self.path is None or not self.path.is_file():
            return b""
        with self.path.open("rb") as file:
            return file.read(4096)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The names inside a zip file or, for a folder, the names in it."""
        if self.path is None:
            return ()
        if self.path.is_dir():
            return tuple(sorted(item.name for item in self.path.iterdir()))
        if not self.head.startswith(b"PK"):
            return ()
        try:
            with zipfile.ZipFile(self.path) as archive:
                return tuple(archive.namelist())
        except zipfile.BadZipFile:
            return ()

    @cached_property
    def pickled(self) -> tuple[str, ...]:
        """The packages whose classes a pickle names, the outermost object's first; empty for anything else."""
        return _pickles.packages(self.head)


@dataclass(frozen=True)
class Source:
    """A recognised source: which plugin runs it, in which form it comes, and how to open it."""

    plugin: str
    form: str
    value: Any = field(default=None, repr=False)
    path: Path | None = None
    attribute: str | None = None
    weights: Path | None = None
    python: Path | None = None
    trust: bool = False
    staged: str = ""
    state: tuple[str, ...] = ()  # what a call changes in the model, to be handed in and out

    @property
    def live(self) -> bool:
        """Whether it is an object of this process, which no other process can open."""
        return self.value is not None

    def __str__(self) -> str:
        if self.live or self.staged:
            return self.staged or type(self.value).__qualname__
        return f"{self.path}:{self.attribute}" if self.attribute else str(self.path)

    def routes(self) -> tuple[str, ...]:
        """The ways to export it, the most trusted first."""
        return tuple(registry.load_light(PACKAGE, self.plugin).routes(self.form))

    def to_request(self) -> dict[str, Any]:
        """What a worker needs to open it."""
        return {
            "form": self.form, "path": str(self.path) if self.path else None, "attribute": self.attribute,
            "weights": str(self.weights) if self.weights else None, "trust": self.trust,
            "state": list(self.state),
        }  # fmt: skip


def recognise(
    source: Any, *, weights: str | Path | None = None, python: str | Path | None = None, trust: bool = False
) -> Source:
    """The source with the plugin and form that fit it, or an error that says what was found instead."""
    if isinstance(source, Source):
        return source
    options: dict[str, Any] = {"weights": _existing(weights, "weights"), "python": _interpreter(python), "trust": trust}
    if not isinstance(source, str | Path):
        return replace(_match(Subject(value=source), type(source).__qualname__), value=source, **options)
    path, attribute = _split(str(source))
    if attribute is not None and not path.is_dir():
        return Source(_framework_of(path, source), "factory", path=path, attribute=attribute, **options)
    if not path.exists():
        raise NotFound(f"{source} does not exist", hint="name a model file, a folder, or file.py:factory")
    found = replace(_match(Subject(path=path), str(source)), path=path, attribute=attribute, **options)
    if found.form.startswith("pickle") and not trust:
        raise Untrusted(
            f"{source} holds Python, as every pickle does, and opening it runs whatever code its author put there",
            hint=f"pass --trust if you made it yourself, or save it safely: {_safer(found)}",
        )
    return found


def _match(subject: Subject, name: str) -> Source:
    for plugin in registry.names(PACKAGE):
        form = registry.load_light(PACKAGE, plugin).accepts(subject)
        if form is not None:
            return Source(plugin, form)
    what = f"a {name}" if subject.path is None else f"{name} ({_kind(subject)})"
    raise UnknownSource(f"no converter here takes {what}", hint="see the list of sources: sardonyx convert --help")


def _split(text: str) -> tuple[Path, str | None]:
    """'file.py:factory' -> (file.py, factory); so with 'folder:signature'. A colon in a plain path, as in C:/model, stays."""
    head, colon, tail = text.rpartition(":")
    if colon and tail.isidentifier() and not Path(text).exists():
        return Path(head), tail
    return Path(text), None


def _framework_of(path: Path, source: object) -> str:
    """The plugin for a factory, told from what its file imports."""
    file = path if path.suffix == ".py" else _module_file(str(path))
    if not file.is_file():
        raise NotFound(
            f"{source}: there is no file or module {path}", hint="write file.py:factory or package.module:factory"
        )
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError as error:
        raise UnknownSource(f"{file}:{error.lineno}: {error.msg}", hint="fix the syntax error and try again") from error
    found = {FRAMEWORKS[name]: None for name in _imported(tree) if name in FRAMEWORKS}
    if len(found) > 1 and "sklearn" in found:  # data sets and metrics come from scikit-learn in every framework's code
        del found["sklearn"]
    if len(found) != 1:
        said = " and ".join(found) if found else "no framework"
        raise UnknownSource(
            f"{file} imports {said}, so it is unclear what {source} builds",
            hint="put the factory in a file that imports one framework: " + ", ".join(sorted(FRAMEWORKS)),
        )
    return next(iter(found))


def _module_file(name: str) -> Path:
    """The source file of a module, found without running it (its parent packages do run)."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return Path(name.replace(".", "/") + ".py")
    return Path(spec.origin) if spec and spec.origin else Path(name.replace(".", "/") + ".py")


def _imported(tree: ast.Module) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module.partition(".")[0])
    return names


def _existing(path: str | Path | None, what: str) -> Path | None:
    if path is None:
        return None
    if not Path(path).exists():
        raise NotFound(f"the {what} {path} do not exist", hint="check the spelling of the path")
    return Path(path)


def _interpreter(python: str | Path | None) -> Path | None:
    import shutil

    if python is None:
        return None
    found = shutil.which(str(python))
    if found is None:
        raise UsageError(f"--python {python} is not an interpreter", hint="name one, as /path/to/venv/bin/python")
    return Path(found)


def _safer(source: Source) -> str:
    advice = registry.load_light(PACKAGE, source.plugin).SAFER
    return str(advice)


def _kind(subject: Subject) -> str:
    if subject.path is not None and subject.path.is_dir():
        return "a folder with " + (", ".join(subject.members[:4]) or "nothing in it")
    return "empty" if not subject.head else f"its first bytes are {subject.head[:8]!r}"
