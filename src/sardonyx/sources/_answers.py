"""What an original gives: answers and failures, what was seen of its code, how steady it is, and exports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Outputs:
    """What the original answered to one batch, in its own order."""

    names: tuple[str, ...]
    arrays: tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True)
class Failure:
    """Why there is no answer: one readable line, and the user's line of code where it is known."""

    reason: str
    where: str = ""


@dataclass(frozen=True)
class Trial:
    """An answer, the branches of the model's code that it took, and how far the conditions were from the other outcome.

    `reached` holds (branch, outcome); `gaps` holds, by branch, the smallest and largest value of both sides of its comparison
    and the operator.
    """

    answer: Outputs | Failure
    reached: frozenset[tuple[str, bool]] = frozenset()
    gaps: Mapping[str, tuple[float, float, float, float, str]] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Branch:
    """A condition in the model's code. `depends` says on what: `value` or `size` of the inputs, or `none` of them."""

    id: str
    file: str
    line: int
    text: str
    depends: str
    taken: tuple[bool, bool]
    raises: tuple[bool, bool]
    numbers: tuple[Any, ...] = ()

    @property
    def missing(self) -> tuple[bool, ...]:
        """The outcomes that depend on the inputs, were not seen, and do not end in an error."""
        if self.depends == "none":
            return ()
        return tuple(outcome for outcome in (False, True) if not self.taken[outcome] and not self.raises[outcome])


@dataclass(frozen=True)
class Steadiness:
    """The outputs that change when the same inputs come again: because of a state, or only with other random seeds.

    `changes` are the names of what a call changes in the model itself. `probe` names the inputs, where they are not the example.
    """

    random: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    probe: str = ""

    @property
    def steady(self) -> bool:
        return not self.random and not self.state


@dataclass(frozen=True)
class Exported:
    """The end of one export: a model file, or a reason."""

    route: str
    path: Path | None
    seconds: float
    failure: Failure | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
