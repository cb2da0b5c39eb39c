"""What a trap is: a small model, the inputs on which a careless export of it is wrong, and what an honest tool may answer.

The tests are in tests/convert/test_traps.py: pytest puts the folder of a test on the path, and sklearn.py here would hide the
framework.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Expect = Literal["right", "random", "state", "refuse"]

# The classes of docs/conversions.md.
CLASSES = (
    "control flow on values", "control flow on sizes", "control flow on integers", "integer arithmetic", "text", "categories",
    "missing values", "random", "state", "precision", "tables and vocabularies", "in-place and aliasing", "dtype promotion",
    "empty and single-element inputs", "dict, optional and list inputs", "train and eval mode",
)  # fmt: skip
FRAMEWORKS = ("torch", "sklearn", "boosting", "keras", "jax")


@dataclass(frozen=True)
class Trap:
    """A model, `convert`'s inputs for it, and the cases by which its export is judged without asking our own search.

    `expect` says what may come out. "right": some export is right and is handed over; "random" and "state": nothing is
    written, and a finding names the cause; "refuse": no export can be right, so nothing is written or a finding says why.

    The line of the model that makes it a trap ends in the comment `# trap`: a finding that says that this line was not reached
    is an honest answer.
    """

    name: str
    trap_class: str
    framework: str
    factory: Callable[[], Any]
    inputs: tuple[str, ...]
    # Inputs by name that spring the trap, written by hand to reach the branch, the value or the size that matters.
    cases: Callable[[np.random.Generator], list[Arrays]]
    expect: Expect
    why: str
    example: Callable[[], Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # further options of `convert`
    # (model, inputs) -> the original's outputs in order, where the framework's plain call does not say it.
    call: Callable[[Any, Arrays], Any] | None = None
    # (expected, exported) -> what differs, or "", where the plain comparison of `_oracle.py` does not say it.
    judge: Callable[[list[Array], list[Array]], str] | None = None
    rtol: float = 1e-3
    atol: float = 1e-5
    said: str = ""  # a pattern: a finding that matches it names this trap, besides one at a marked line
    honest: bool = False  # no trap at all: every route should agree, and a refusal is a false alarm
    live: bool = False  # given to `convert` as an object; else by `module:factory`, which worker processes open

    def __post_init__(self) -> None:
        assert self.trap_class in CLASSES, f"{self.name}: no class '{self.trap_class}'"
        assert self.framework in FRAMEWORKS, f"{self.name}: no framework '{self.framework}'"

    def build(self) -> Any:
        """The model, with the weights that `module:factory` gives: every process that opens one seeds alike."""
        random.seed(0)
        np.random.seed(0)
        if "torch" in sys.modules:
            sys.modules["torch"].manual_seed(0)
        return self.factory()

    def source(self, *, live: bool | None = None) -> Any:
        """What `convert` is given: an object, or `module:factory`."""
        if self.live if live is None else live:
            return self.build()
        return f"{self.factory.__module__}:{self.factory.__qualname__}"

    def but(self, **fields: Any) -> Trap:
        """The trap with other fields."""
        return replace(self, **fields)

    @property
    def lines(self) -> set[int]:
        """The lines that are marked as the trap, and the line after each: what is not reached is often a branch's body."""
        try:
            text, first = inspect.getsourcelines(self.factory)
        except (OSError, TypeError):  # a partial or a lambda has no lines of its own
            return set()
        marked = {first + index for index, line in enumerate(text) if line.rstrip().endswith("# trap")}
        return marked | {line + 1 for line in marked}


class Traps(list[Trap]):
    """The traps of one file. `add` decorates a factory: a class without arguments, or a function."""

    def __init__(self, framework: str, **defaults: Any) -> None:
        super().__init__()
        self._defaults = {"framework": framework, "expect": "right", **defaults}

    def add(self, trap_class: str, name: str = "", **fields: Any) -> Callable[[Any], Any]:
        """Registers what it decorates, under its own name in hyphens and with its docstring as the reason, if none are given."""

        def register(factory: Any) -> Any:
            given = {"name": name or hyphens(factory.__name__), "why": inspect.getdoc(factory) or "", **self._defaults}
            self.append(Trap(trap_class=trap_class, factory=factory, **given | fields))
            return factory

        return register


def hyphens(name: str) -> str:
    """NanToNum and nan_to_num -> nan-to-num."""
    words = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.strip("-").replace("_", "-")


def floats(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    """Normal float32 numbers, for cases and examples."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)
