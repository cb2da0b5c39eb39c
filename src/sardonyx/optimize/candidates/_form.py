"""What a candidate's file says about itself.

- `make(source, target)` writes a better graph of the model at `source` to `target`, and gives notes, or None to stand aside.
- `NEEDS`: the module that must be installed; none if it is left out.
- `LEVEL`: "machine" for graphs that only this runtime on a machine like this one may run.
- `INSTEAD_OF`: the candidate in whose place it is made, where that one is out.
- `IN_CHILD`: whether it may crash or hang, and so runs in a process of its own. The others share one, or none for a small model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sardonyx import registry
from sardonyx.optimize.passes._rewrite import Note

PACKAGE = "sardonyx.optimize.candidates"


@dataclass(frozen=True)
class Way:
    """One way to a better graph."""

    name: str
    make: Callable[[Path, Path], list[Note] | None]
    needs: str | None
    level: str
    in_child: bool = False
    instead_of: str | None = None

    @property
    def installed(self) -> bool:
        return self.needs is None or registry.importable(self.needs)


def target_of(name: str, folder: Path) -> Path:
    """Where the candidate of this name is written."""
    return folder / f"{name}.onnx"


def ways(level: str) -> list[Way]:
    """Every way of the folder that the level allows, installed or not. The files import nothing heavy at their top."""
    found = [_way(name) for name in registry.names(PACKAGE)]
    return [way for way in found if level == "machine" or way.level == "portable"]


def _way(name: str) -> Way:
    module: Any = registry.load_light(PACKAGE, name)
    return Way(
        name,
        module.make,
        getattr(module, "NEEDS", None),
        getattr(module, "LEVEL", "portable"),
        getattr(module, "IN_CHILD", False),
        getattr(module, "INSTEAD_OF", None),
    )
