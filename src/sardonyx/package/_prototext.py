"""Protobuf's text form, as far as a configuration needs it: fields, lists and messages, written and read again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*("(?:[^"\\]|\\.)*"|[\w.+-]+|[\[\]{}:,])')


class Word(str):
    """A name that stands without quotes, as TYPE_FP32 does."""

    __slots__ = ()


def dumps(message: Mapping[str, Any], indent: str = "") -> str:
    """The message as text: a list of messages as one field each, a list of numbers in brackets."""
    lines = []
    for key, value in message.items():
        for item in value if isinstance(value, list) and value and isinstance(value[0], Mapping) else [value]:
            if isinstance(item, Mapping):
                inside = dumps(item, f"{indent}  ")
                lines.append(f"{indent}{key} {{\n{inside}{indent}}}\n" if inside else f"{indent}{key} {{ }}\n")
            else:
                lines.append(f"{indent}{key}: {_value(item)}\n")
    return "".join(lines)


def loads(text: str) -> dict[str, list[Any]]:
    """Every field with all of its values, in order. Raises `ValueError` where the text is none."""
    tokens = list(_tokens(text))
    message, rest = _message(tokens, 0, end=None)
    assert rest == len(tokens)
    return message


def _value(item: Any) -> str:
    if isinstance(item, list):
        return f"[{', '.join(map(_value, item))}]"
    return item if isinstance(item, Word) else json.dumps(item)


def _tokens(text: str) -> Iterator[str]:
    place, text = 0, text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"unreadable: {text[place : place + 20]!r}")
        place = match.end()
        yield match[1]


def _message(tokens: list[str], place: int, end: str | None) -> tuple[dict[str, list[Any]], int]:
    found: dict[str, list[Any]] = {}
    while place < len(tokens) and tokens[place] != end:
        key = tokens[place]
        if not key.isidentifier() or place + 1 == len(tokens):
            raise ValueError(f"{key!r} is no field")
        values, place = _values(tokens, place + (2 if tokens[place + 1] == ":" else 1))
        found.setdefault(key, []).extend(values)
    if end is not None and place == len(tokens):
        raise ValueError("a bracket is not closed")
    return found, place + (end is not None)


def _values(tokens: list[str], place: int) -> tuple[list[Any], int]:
    if place >= len(tokens):
        raise ValueError("the text ends in a field")
    if tokens[place] == "{":
        message, place = _message(tokens, place + 1, "}")
        return [message], place
    if tokens[place] == "[":
        values: list[Any] = []
        place += 1
        while place < len(tokens) and tokens[place] != "]":
            more, place = _values(tokens, place)
            values += more
            place += place < len(tokens) and tokens[place] == ","
        if place >= len(tokens):
            raise ValueError("a list is not closed")
        return values, place + 1
    return [_scalar(tokens[place])], place + 1


def _scalar(token: str) -> Any:
    if token.startswith('"') or re.fullmatch(r"[+-]?\d+", token):
        return json.loads(token.removeprefix("+"))
    return Word(token)
