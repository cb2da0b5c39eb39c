"""Seeded damage to bytes: the same seed gives the same input on every machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

INTERESTING = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01",
    b"(",
    b"'",
    b"-1",
)


def mutations(seeds: Sequence[bytes], count: int, seed: int = 0) -> Iterator[tuple[int, bytes]]:
    """`count` inputs, each with the number that makes it again: `mutated(seeds, number)`."""
    for number in range(seed, seed + count):
        yield number, mutated(seeds, number)


def mutated(seeds: Sequence[bytes], number: int) -> bytes:
    """One of the seeds with one to eight pieces of damage."""
    chance = random.Random(number)
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        chance.choice(DAMAGE)(data, chance)
    return bytes(data)


def flip(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def put(data: bytearray, chance: random.Random) -> None:
    piece, place = chance.choice(INTERESTING), chance.randrange(len(data) + 1)
    data[place : place + len(piece)] = piece


def insert(data: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(data) + 1)
    data[place:place] = chance.randbytes(chance.randrange(1, 9))


def cut(data: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(data) + 1)
    del data[place : place + chance.randrange(1, 17)]


def repeat(data: bytearray, chance: random.Random) -> None:
    place, size = chance.randrange(len(data) + 1), chance.randrange(1, 33)
    data[place:place] = data[place : place + size] * chance.randrange(1, 5)


def number_put(data: bytearray, chance: random.Random) -> None:
    """A varint in the place of a byte: dimensions, indices and attributes of a protocol buffer are of this kind."""
    value, encoded = (
        chance.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, 2**64 - 2**31)),
        bytearray(),
    )
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    if data:
        place = chance.randrange(len(data))
        data[place : place + 1] = encoded


DAMAGE: tuple[Callable[[bytearray, random.Random], None], ...] = (flip, put, insert, cut, repeat, number_put)


# Damage to a message of protocol buffers, which stays one: wrong numbers, names, types, and parts too few or too many.

NUMBERS = (0, 1, -1, 2, 3, 7, 63, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**40)
TEXTS = (
    "",
    "x",
    "y",
    "w",
    "Relu",
    "Loop",
    "GatherND",
    "Attention",
    "SplitToSequence",
    "Einsum",
    "../../x",
    "\n\x1b[31m",
    "ai.onnx.ml",
    "." * 300,
)


def damaged_message(message: Any, number: int) -> bytes:
    """The bytes of the message with one to six of its fields changed."""
    chance = random.Random(number)
    changed = type(message)()
    changed.CopyFrom(message)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        _damage(changed, chance)
    return bytes(changed.SerializeToString())


def _damage(message: Any, chance: random.Random) -> None:
    places = list(_places(message))
    owner, field = chance.choice(places)
    if _repeated(field):
        _damage_list(getattr(owner, field.name), field, chance)
    elif field.message_type is not None:
        owner.ClearField(field.name)
    else:
        _set(lambda value: setattr(owner, field.name, value), field, chance)


def _places(message: Any) -> Iterator[tuple[Any, Any]]:
    """Every field that is set, of the message and of those inside it."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for item in value if _repeated(field) else [value]:
                yield from _places(item)


def _repeated(field: Any) -> bool:
    """Newer releases of protobuf have a word for it, and warn of the old one."""
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _damage_list(items: Any, field: Any, chance: random.Random) -> None:
    what, place = chance.randrange(3), chance.randrange(len(items))
    if what == 0:
        del items[place]
    elif what == 1 or field.message_type is not None:
        items.extend([items[place]] * chance.choice((1, 1, 9)))
    else:
        _set(lambda value: items.__setitem__(place, value), field, chance)


def _set(store: Callable[[Any], None], field: Any, chance: random.Random) -> None:
    kinds = {
        field.CPPTYPE_STRING: lambda: (
            chance.choice(TEXTS) if field.type == field.TYPE_STRING else chance.choice(TEXTS).encode()
        ),
        field.CPPTYPE_FLOAT: lambda: chance.choice((0.0, -1.0, float("nan"), 3e38)),
        field.CPPTYPE_DOUBLE: lambda: chance.choice((0.0, -1.0, float("nan"), 1e308)),
    }
    value = kinds.get(field.cpp_type, lambda: chance.choice(NUMBERS))()
    try:
        store(value)
    except (ValueError, TypeError):  # too large for this field
        store(type(value)(1) if not isinstance(value, int) else 1)
