"""Small changes of an input, and moves that bring a comparison in the code or the graph to its other outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from sardonyx.falsify.hints import Hints
from sardonyx.falsify.integers import Domain
from sardonyx.falsify.kinds import redraw
from sardonyx.falsify.sizes import LARGEST, MOST_ELEMENTS, resize, symbols
from sardonyx.signature import Array, Arrays, Signature

# The smallest and largest value on the left, on the right, and the operator between them.
Gap = tuple[float, float, float, float, str]
INTERESTING = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 10.0, -10.0, 100.0, -100.0, 1e3, -1e3, 1e4, -1e4, 1e-3, -1e-3, 1e6, -1e6)


class Mutator:
    """Changes inputs at random, within what the original is known to accept."""

    def __init__(
        self, signature: Signature, hints: Hints, domains: Mapping[str, Domain], random: np.random.Generator
    ) -> None:
        self.signature, self.hints, self.domains, self.random = signature, hints, domains, random

    def mutate(self, corpus: Sequence[Arrays]) -> Arrays:
        """One to four changes of one input of the corpus."""
        found = dict(corpus[int(self.random.integers(len(corpus)))])
        for _ in range(1 + int(self.random.integers(3))):
            name = str(self.random.choice(list(found)))
            if len(corpus) > 1 and self.random.random() < 0.1:
                other = corpus[int(self.random.integers(len(corpus)))][name]
                found[name] = other if other.shape == found[name].shape else found[name]
            elif self.random.random() < 0.08:
                found = self._resized(found)
            else:
                found[name] = self.change(name, found[name])
        return found

    def change(self, name: str, array: Array) -> Array:
        """One change of one array."""
        if not array.size:
            return array
        kind = array.dtype.kind
        if kind == "f":
            with np.errstate(over="ignore", invalid="ignore"):
                return self._pick(self._float_changes(name))(array)
        if kind in "iu":
            return self._integer(name, array)
        if kind == "b":
            return self._pick((lambda x: ~x, lambda x: self._somewhere(x, True), lambda x: self._somewhere(x, False)))(
                array
            )
        if kind in "OUS":
            return self._text(name, array)
        return array

    def _float_changes(self, name: str) -> Sequence[Callable[[Array], Array]]:
        random = self.random
        numbers = [*INTERESTING, *self.hints.numbers_for(name)]

        def number() -> float:
            return float(random.choice(numbers)) + float(random.choice([0.0, 0.0, 1e-3, -1e-3, 1.0, -1.0]))

        return (
            lambda x: self._somewhere(x, number()),
            lambda x: self._somewhere(x, number()),
            lambda x: self._slice(x, number()),
            lambda x: np.full_like(x, number()),
            lambda x: x * np.asarray(10.0 ** random.uniform(-4, 4) * random.choice([-1, 1]), x.dtype),
            lambda x: x + np.asarray(number(), x.dtype),
            lambda x: redraw(x, random),
            lambda x: redraw(x, random, wide=True),
            lambda x: self._scaled_slice(x),
            lambda x: np.where(random.random(x.shape) < 0.5, x, np.asarray(0, x.dtype)),
            lambda x: np.abs(x) * np.asarray(random.choice([-1, 1]), x.dtype),
            lambda x: self._copied_row(x),
        )

    def _integer(self, name: str, array: Array) -> Array:
        domain = (self.domains.get(name) or Domain(int(array.min()), int(array.max()))).usual(array)
        told = [int(n) for n in self.hints.numbers_for(name) if n == int(n)]
        inside = [n + step for n in told for step in (-1, 0, 1) if domain.low <= n + step <= domain.high]
        value = self._integer_between(domain, inside)
        changes: tuple[Callable[[Array], Array], ...] = (
            lambda x: self._somewhere(x, value),
            lambda x: self._slice(x, value),
            lambda x: np.full_like(x, value),
            lambda x: self.random.integers(domain.low, domain.high, x.shape, dtype=np.int64, endpoint=True).astype(
                x.dtype
            ),
            lambda x: np.clip(x.astype(np.int64) + int(self.random.integers(-2, 3)), domain.low, domain.high).astype(
                x.dtype
            ),
            lambda x: self._copied_row(x),
        )
        return self._pick(changes)(array)

    def _integer_between(self, domain: Domain, inside: Sequence[int]) -> int:
        if inside and self.random.random() < 0.5:
            return int(self.random.choice(inside))
        if self.random.random() < 0.3:
            return int(self.random.choice([domain.low, domain.high]))
        return int(self.random.integers(domain.low, domain.high, endpoint=True))

    def _text(self, name: str, array: Array) -> Array:
        words = [*self.hints.words.get(name, ()), *self.hints.words.get("", ()), *self.hints.texts.get(name, ())]
        known = [str(text) for text in array.reshape(-1)[:8]]
        base = str(self.random.choice([*words, *known, "", "a"] if words else [*known, "", "a", "A b"]))
        changes = [base.upper(), base.lower(), base.title(), f"{base} ", f"{base} {base}", base.strip(), base]
        return self._somewhere(array.astype(object), str(self.random.choice(changes)))

    def _resized(self, inputs: Arrays) -> Arrays:
        sizes = symbols(self.signature, inputs)
        if not sizes:
            return inputs
        symbol = str(self.random.choice(list(sizes)))
        choices = [1, 2, 3, 4, 6, 7, 12, 20, *(n + s for n in self.hints.sizes for s in (-1, 0, 1) if 0 < n + s <= 256)]
        size = int(self.random.choice(choices))
        elements = sum(array.size for array in inputs.values())
        if elements * size > 64 * 1024 * max(1, sizes[symbol]) and size > sizes[symbol]:
            return inputs
        return resize(self.signature, inputs, {**sizes, symbol: size}, self.random)

    def _pick(self, choices: Sequence[Callable[..., Array]]) -> Callable[..., Array]:
        return choices[int(self.random.integers(len(choices)))]

    def _somewhere(self, array: Array, value: object) -> Array:
        found = array.copy()
        found.reshape(-1)[self.random.integers(array.size)] = value
        return found

    def _slice(self, array: Array, value: object) -> Array:
        """One row or one column set to a value."""
        found = array.copy()
        axis = int(self.random.integers(max(1, array.ndim)))
        if array.ndim:
            index = [slice(None)] * array.ndim
            index[axis] = slice(*sorted(self.random.integers(0, array.shape[axis] + 1, 2)))
            found[tuple(index)] = value
        return found

    def _scaled_slice(self, array: Array) -> Array:
        found = array.copy()
        if array.ndim:
            axis = int(self.random.integers(array.ndim))
            index = [slice(None)] * array.ndim
            index[axis] = slice(*sorted(self.random.integers(0, array.shape[axis] + 1, 2)))
            found[tuple(index)] *= np.asarray(
                10.0 ** self.random.uniform(-3, 3) * self.random.choice([-1, 1]), array.dtype
            )
        return found

    def _copied_row(self, array: Array) -> Array:
        if array.ndim < 1 or len(array) < 2:
            return array
        found = array.copy()
        one, two = self.random.integers(0, len(array), 2)
        found[one] = found[two]
        return found


def moves(signature: Signature, inputs: Arrays, gap: Gap, wanted: bool) -> Iterator[Arrays]:
    """Inputs on which the comparison may come out as wanted: sizes and values scaled, shifted or set by the distance."""
    left, right = _operands(gap, wanted)
    yield from _size_moves(signature, inputs, left, right)
    for names in ([[name] for name in inputs] if len(inputs) > 1 else []) + [list(inputs)]:
        yield from _scaled(inputs, names, left, right)
        yield from _shifted(inputs, names, left, right)
        yield from _set(inputs, names, right)
        yield from _set(inputs, names, left)


def _operands(gap: Gap, wanted: bool) -> tuple[float, float]:
    """The value on each side that is nearest to tipping the comparison."""
    low, high, other_low, other_high, operator = gap
    rising = (operator in ("Gt", "GtE")) == wanted
    return (high, other_low) if rising else (low, other_high)


def _size_moves(signature: Signature, inputs: Arrays, left: float, right: float) -> Iterator[Arrays]:
    sizes = symbols(signature, inputs)
    if not all(math.isfinite(n) and n == int(n) and abs(n) <= LARGEST for n in (left, right)):
        return
    elements = sum(array.size for array in inputs.values())
    for symbol, size in sizes.items():
        deltas = (right - left, right - left + 1, right - left - 1)
        targets = [size + int(delta) for delta in deltas] + [int(right), int(right) + 1, int(right) - 1]
        for target in dict.fromkeys(targets):
            if 0 < target <= LARGEST and target != size and elements * target <= MOST_ELEMENTS * max(1, size):
                yield resize(signature, inputs, {**sizes, symbol: target}, np.random.default_rng(target))


def _scaled(inputs: Arrays, names: Sequence[str], left: float, right: float) -> Iterator[Arrays]:
    if not left or not math.isfinite(left) or not math.isfinite(right):
        return
    ratio = right / left
    factors = [ratio * 1.1, ratio * 0.9, ratio * 3]
    if ratio > 0:
        factors += [math.sqrt(ratio) * 1.1, ratio * ratio, -ratio * 1.1]
    for factor in (*factors, -1.0, 0.0):
        yield _each(inputs, names, lambda x, f=factor: x * np.asarray(f, x.dtype) if x.dtype.kind == "f" else x)


def _shifted(inputs: Arrays, names: Sequence[str], left: float, right: float) -> Iterator[Arrays]:
    distance = right - left
    if not math.isfinite(distance):
        return
    for step in (distance * 1.1, distance * 0.9, distance + 1, distance - 1):
        yield _each(inputs, names, lambda x, s=step: _added(x, s))


def _set(inputs: Arrays, names: Sequence[str], value: float) -> Iterator[Arrays]:
    if not math.isfinite(value) or abs(value) > 1e30:
        return
    for number in (value, value + 1, value - 1, 2 * value, value / 2):
        yield _each(inputs, names, lambda x, n=number: _filled(x, n))
        yield _each(inputs, names, lambda x, n=number: _first(x, n))


def _each(inputs: Arrays, names: Sequence[str], change: Callable[..., Array]) -> Arrays:
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: change(array) if name in names else array for name, array in inputs.items()}


def _added(array: Array, step: float) -> Array:
    if array.dtype.kind == "f":
        return array + np.asarray(step, array.dtype)
    return _integer(array, array.astype(np.float64) + round(step)) if array.dtype.kind in "iu" else array


def _filled(array: Array, value: float) -> Array:
    if array.dtype.kind == "f":
        return np.full_like(array, value)
    return _integer(array, np.full(array.shape, round(value), np.float64)) if array.dtype.kind in "iu" else array


def _first(array: Array, value: float) -> Array:
    if array.dtype.kind not in "iuf" or not array.size:
        return array
    found = array.copy()
    if array.dtype.kind == "f" or np.iinfo(array.dtype).min <= value <= np.iinfo(array.dtype).max:
        found.flat[0] = value if array.dtype.kind == "f" else round(value)
    return found


def _integer(array: Array, wanted: Array) -> Array:
    limits = np.iinfo(array.dtype)
    return np.clip(wanted, max(limits.min, -(2**53)), min(limits.max, 2**53)).astype(array.dtype)
