"""How far an element of an answer may be off, in numbers. `sardonyx.agreement` decides by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """The difference allowed at an element: `absolute + relative * |reference|`.

    An output may hold numbers of quite different size side by side, such as boxes in pixels and a score. Then `columns` has, for
    every place of the last axis, the share of `absolute` that is allowed there.
    """

    absolute: float = 0.0
    relative: float = 0.0
    columns: tuple[float, ...] = ()

    def at(self, reference: Any, start: int = 0) -> Any:
        """The limit at every element of an array, or of a flat part of one that starts at this element."""
        return self.absolute * self._share(reference, start) + self.relative * np.abs(reference)

    def plus(self, other: Tolerance) -> Tolerance:
        """Both together; what the other allows counts in every column."""
        absolute = self.absolute + other.absolute
        shares = (
            tuple((self.absolute * share + other.absolute) / absolute for share in self.columns) if absolute else ()
        )
        return Tolerance(absolute, self.relative + other.relative, shares)

    def or_larger(self, other: Tolerance) -> Tolerance:
        """The larger of both in either part."""
        large, small = sorted((self, other), key=lambda one: one.absolute, reverse=True)
        same = len(large.columns) == len(small.columns) and large.absolute
        ratio = small.absolute / large.absolute if large.absolute else 0.0
        shares = (max(a, b * ratio) for a, b in zip(large.columns, small.columns, strict=True)) if same else ()
        return Tolerance(large.absolute, max(self.relative, other.relative), tuple(shares))

    def _share(self, reference: Any, start: int) -> Any:
        shape = np.shape(reference)
        if not self.columns or not shape:
            return 1.0
        places = (start + np.arange(np.size(reference))) % len(self.columns)
        return np.asarray(self.columns)[places].reshape(shape)


EXACT = Tolerance()
