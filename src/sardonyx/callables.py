"""The user's own Python, named as `module:callable` or `file.py:callable`."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from sardonyx.errors import NotFound, SardonyxError, SourceFailed

_REFERENCE = re.compile(r"(?P<module>.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)")


def is_reference(text: str) -> bool:
    """Whether the text is written as `module:callable` or `file.py:callable`."""
    return _REFERENCE.fullmatch(text) is not None


def load(text: str) -> Callable[..., Any]:
    """The function or class that `module:callable` or `file.py:callable` names. Modules are looked for here too."""
    match = _REFERENCE.fullmatch(text)
    assert match is not None, f"{text} is not a reference"
    with raised_by(text):
        module = _module(match["module"])
    found = getattr(module, match["name"], None)
    if not callable(found):
        raise NotFound(
            f"{match['module']} has no function '{match['name']}'",
            hint=f"it has {', '.join(_functions(module)) or 'no functions'}",
        )
    return found


@contextmanager
def raised_by(text: str) -> Iterator[None]:
    """What the user's code raises inside the block becomes a `SourceFailed` that says where."""
    try:
        yield
    except SardonyxError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if not frame.filename.startswith((str(Path(__file__).parent), "<"))]
        where = f" ({Path(theirs[-1].filename).name}:{theirs[-1].lineno})" if theirs else ""
        raise SourceFailed(
            f"{text} raised {type(error).__name__}: {error}{where}",
            hint="run it alone in Python to see the whole error",
        ) from error


def _module(name: str) -> ModuleType:
    if not name.endswith(".py"):
        with _importing_from(Path.cwd()):
            return _imported(name)
    path = Path(name).resolve()
    if not path.is_file():
        raise NotFound(f"{name} does not exist", hint="check the spelling of the path")
    spec = importlib.util.spec_from_file_location(f"sardonyx_user_{path.stem}", path)
    assert spec is not None, f"{path} ends in .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _importing_from(path.parent):
        spec.loader.exec_module(module)
    return module


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotFound(
                f"there is no module {name}", hint="check the spelling, or write file.py:callable"
            ) from error
        raise


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Imports inside the block also look into the folder: after the standard library, before what is installed."""
    installed = (at for at, entry in enumerate(sys.path) if Path(entry).name in ("site-packages", "dist-packages"))
    sys.path.insert(next(installed, len(sys.path)), str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _functions(module: ModuleType) -> list[str]:
    return [name for name, item in vars(module).items() if callable(item) and not name.startswith("_")]
