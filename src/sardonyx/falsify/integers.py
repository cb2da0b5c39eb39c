"""Integers: which ones the original accepts, found by asking, and probes that visit them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sardonyx.falsify.hints import Hints
from sardonyx.falsify.probe import Probe
from sardonyx.falsify.sizes import resize, symbols
from sardonyx.signature import Array, Arrays, Signature

NEAR = (0, 1, 2, 3, 5, 7, 10, -1, -2, -3, -7)
MIDDLE = (4, 6, 8, 16, 31, 32, 33, 64, 100, 255, 256, 1000, -4, -8, -100, -1000)
# Large enough to overflow 16, 31 or 32 bits. Only where 1000 was neither refused nor slow.
FAR = (32768, 65536, 10**6, 2**31 - 1, 2**31, 2**40, -32769, -(2**31), -(2**40))
# Every value of an integer scalar in this span.
SCALAR = range(-3, 41)
# A span of at most so many accepted values is swept whole, in at most so many probes.
SWEPT = 8192
# Integers up to this are what models are meant for; a larger one belongs to a table or is soft.
USUAL = 10_000
SWEEPS = 24


@dataclass(frozen=True)
class Domain:
    """The smallest and the largest integer that the original accepted at one input, and whether it refused any beyond."""

    low: int
    high: int
    bounded: bool = False

    def usual(self, array: Array) -> Domain:
        """The part of it that is within a thousand, or within what the example holds: beyond, numbers overflow."""
        least, most = min(-USUAL, int(array.min())), max(USUAL, int(array.max()))
        return Domain(max(self.low, least), min(self.high, most), self.bounded)


Ask = Callable[[Sequence[Probe]], list[bool]]  # which of the probes the original answered


def explore_integers(example: Arrays, hints: Hints, ask: Ask) -> dict[str, Domain]:
    """Asks the original for every integer input, in steps that grow while it answers. The answers are kept by `ask`."""
    found = {}
    for name, array in example.items():
        if array.dtype.kind in "iu" and array.size:
            found[name] = _explore(name, example, hints, ask)
    return found


def integer_probes(
    signature: Signature, example: Arrays, domains: dict[str, Domain], random: np.random.Generator
) -> Iterator[Probe]:
    """Arrays that visit the accepted integers: every one where they are few, repeated, sorted, and drawn."""
    for name, whole in domains.items():
        array, domain = example[name], whole.usual(example[name])
        yield from _orders(name, example)
        for turn in range(2):
            yield Probe(f"{name} drawn {turn}", {**example, name: _draw(array, domain, random)})
        if domain != whole:
            yield Probe(f"{name} drawn from all", {**example, name: _draw(array, whole, random)}, soft=True)
        if 1 < domain.high - domain.low + 1 <= SWEPT:
            yield from _sweep(name, signature, example, domain, random)
    if len(domains) > 1:
        for turn in range(2):
            drawn = {name: _draw(example[name], item.usual(example[name]), random) for name, item in domains.items()}
            yield Probe(f"all integers drawn {turn}", {**example, **drawn})


def _explore(name: str, example: Arrays, hints: Hints, ask: Ask) -> Domain:
    array = example[name]
    told = [int(n) for n in hints.numbers_for(name) if n == int(n) and abs(n) <= 10_000]
    around = [n + step for n in told[:16] for step in (0, 1, -1)]
    rows = hints.tables.get(name)
    table = [rows - 1, rows // 2, rows] if rows else []
    near = [*SCALAR] if array.size == 1 else [*NEAR]
    steps = (([*near, *around, *table], False), (MIDDLE, False), (FAR, True))
    start = int(array.min()), int(array.max())
    high, above = _climb(name, example, start, steps, ask, up=True)
    low, below = _climb(name, example, (start[0], high), steps, ask, up=False)
    return Domain(low, high, above or below)


def _climb(
    name: str,
    example: Arrays,
    start: tuple[int, int],
    steps: Sequence[tuple[Sequence[int], bool]],
    ask: Ask,
    *,
    up: bool,
) -> tuple[int, bool]:
    """The last integer accepted above the example's, or below it, and whether one beyond it was refused."""
    limits = np.iinfo(example[name].dtype)
    best = start[1] if up else start[0]
    for values, soft in steps:
        fits = (v for v in dict.fromkeys(values) if limits.min <= v <= limits.max)
        tried = [v for v in fits if (v >= start[0]) == up]
        answered = ask([Probe(f"{name} = {v}", _placed(example, name, v), soft=soft) for v in tried])
        pairs = list(zip(tried, answered, strict=True))
        best = (max if up else min)([best, *(v for v, ok in pairs if ok)])
        refused = [v for v, ok in pairs if not ok and ((v > best) if up else (v < best))]
        if refused:
            nearest = (min if up else max)(refused)
            return (best if soft else _between(name, example, best, nearest, ask)), True
    return best, False


def _between(name: str, example: Arrays, accepted: int, refused: int, ask: Ask) -> int:
    """The accepted integer next to a refused one, by cutting the span between them into nine."""
    while abs(refused - accepted) > 1:
        inner = [int(v) for v in np.linspace(accepted, refused, 10)[1:-1].round()]
        tried = [v for v in dict.fromkeys(inner) if v not in (accepted, refused)]
        answered = ask([Probe(f"{name} = {v}", _placed(example, name, v)) for v in tried])
        replies = list(zip(tried, answered, strict=True))
        first_refusal = next((index for index, (_, ok) in enumerate(replies) if not ok), len(replies))
        if first_refusal < len(replies):
            refused = replies[first_refusal][0]
        if first_refusal:
            accepted = replies[first_refusal - 1][0]
    return accepted


def _placed(example: Arrays, name: str, value: int) -> Arrays:
    """The example with the value everywhere in a short input, and in every third place of a longer one."""
    array = example[name].copy()
    array.reshape(-1)[:: 1 if array.size < 8 else 3] = value
    return {**example, name: array}


def _orders(name: str, example: Arrays) -> Iterator[Probe]:
    array = example[name]
    orders: dict[str, Array] = {
        "smallest": np.full_like(array, array.min()),
        "largest": np.full_like(array, array.max()),
        "reversed": np.flip(array).copy(),
        "sorted": np.sort(array, axis=None).reshape(array.shape),
    }
    for kind, changed in orders.items():
        yield Probe(f"{name} {kind}", {**example, name: changed})


def _draw(array: Array, domain: Domain, random: np.random.Generator) -> Array:
    return np.asarray(random.integers(domain.low, domain.high, array.shape, dtype=np.int64, endpoint=True)).astype(
        array.dtype
    )


def _sweep(
    name: str, signature: Signature, example: Arrays, domain: Domain, random: np.random.Generator
) -> Iterator[Probe]:
    """Every accepted value once, in inputs that are made larger where that is needed and possible."""
    values = np.arange(domain.low, domain.high + 1)
    spec = next(spec for spec in signature.inputs if spec.name == name)
    sizes = symbols(signature, example)
    batch = next((dim for dim in spec.shape or () if isinstance(dim, str)), None)
    base = example
    if values.size > SWEEPS * example[name].size and batch is not None:
        factor = -(-values.size // (SWEEPS * example[name].size))
        base = resize(signature, example, {**sizes, batch: sizes[batch] * factor}, random)
    size = base[name].size
    for start in range(0, min(values.size, SWEEPS * size), size):
        part = np.resize(values[start : start + size], base[name].shape).astype(base[name].dtype)
        yield Probe(f"{name} from {values[start]}", {**base, name: part})
