"""A probe: inputs on which the original is asked, and its answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from sardonyx.signature import Arrays
from sardonyx.sources import Outputs, Trial

# Comparisons that NaN makes false without anybody's asking for it; x != x asks.
ORDERS = ("Lt", "LtE", "Gt", "GtE")
# Beyond this, few models are meant to answer.
LARGE = 1e3


@dataclass(frozen=True)
class Probe:
    """One set of inputs, and in words what is special about it.

    `on_edge`: its values lie on thresholds, where one unit in the last place changes the answer. `soft`: NaN, infinities, empty
    dimensions or huge numbers, which few models are meant for; a difference there is a finding, and a fault only where the
    original treats such values in its own way.
    """

    name: str
    arrays: Arrays
    on_edge: bool = False
    soft: bool = False

    @property
    def size(self) -> int:
        """The number of elements of all inputs, which is what the cost of an answer goes by."""
        return sum(array.size for array in self.arrays.values())

    def digest(self) -> bytes:
        """What tells two probes apart."""
        found = hashlib.blake2b(digest_size=16)
        for name, array in sorted(self.arrays.items()):
            found.update(f"{name}{array.shape}{array.dtype}".encode())
            found.update("\0".join(map(str, array.reshape(-1))).encode() if array.dtype == object else array.tobytes())
        return found.digest()


@dataclass(frozen=True)
class Answered:
    """A probe with the original's answer."""

    probe: Probe
    outputs: Outputs
    trial: Trial

    @property
    def compares_nan(self) -> bool:
        """Whether a condition of the code compared NaN, which comes out false by no intention of the model's author."""
        return any(np.isnan(gap[:4]).any() and gap[4] in ORDERS for gap in self.trial.gaps.values())

    @property
    def overflows(self) -> bool:
        """Whether large finite numbers go in and NaN or infinities come out: the original is not meant for them."""
        given = [array for array in self.probe.arrays.values() if array.dtype.kind == "f" and array.size]
        finite = all(bool(np.isfinite(array).all()) for array in given)
        large = finite and any(float(np.abs(array).max()) > LARGE for array in given)
        return large and any(
            not np.isfinite(array).all() for array in map(np.asarray, self.outputs.arrays) if array.dtype.kind == "f"
        )

    @property
    def handled(self) -> bool:
        """Whether NaN or infinities go in and finite floats alone come out, as where they are treated in a way of their own."""
        given = [array for array in self.probe.arrays.values() if array.dtype.kind == "f"]
        floats = [array for array in map(np.asarray, self.outputs.arrays) if array.dtype.kind == "f" and array.size]
        strange = any(not np.isfinite(array).all() for array in given)
        return strange and bool(floats) and all(bool(np.isfinite(array).all()) for array in floats)
