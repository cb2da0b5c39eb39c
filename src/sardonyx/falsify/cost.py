"""How long an answer of the original will take."""

from __future__ import annotations


class Cost:
    """What an answer is expected to cost, from the sizes asked so far."""

    def __init__(self) -> None:
        self._known: dict[int, float] = {}

    def note(self, size: int, seconds: float) -> None:
        self._known[size] = min(seconds, self._known.get(size, seconds))

    def of(self, size: int) -> float:
        """The seconds of the next larger size that was asked; beyond the largest, in proportion to the square root.

        Most of a short answer is not in proportion to its size, and what it really took is known afterwards.
        """
        larger = [known for known in self._known if known >= size]
        if larger:
            return self._known[min(larger)]
        largest = max(self._known, default=1)
        return self._known.get(largest, 0.0) * (size / max(1, largest)) ** 0.5
