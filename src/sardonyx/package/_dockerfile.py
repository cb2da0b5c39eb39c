"""The instructions of a Dockerfile."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_KNOWN = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "STOPSIGNAL", "USER", "WORKDIR",
}  # fmt: skip


@dataclass(frozen=True)
class Instruction:
    """`COPY --from=build a b` -> word COPY, flags {--from=build}, rest 'a b'."""

    word: str
    flags: frozenset[str]
    rest: str


def parse(text: str) -> list[Instruction]:
    """The instructions in order, continued lines put together. Raises `ValueError` for a line that is none."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    found = [_instruction(line.strip()) for line in lines if line.strip()]
    if not found or found[0].word not in ("ARG", "FROM"):
        raise ValueError("it does not begin with FROM")
    return found


def exec_form(text: str) -> list[str] | None:
    """The words of a command that runs without a shell, or None for one that does not."""
    try:
        words = json.loads(text)
    except ValueError:
        return None
    return words if isinstance(words, list) and words and all(isinstance(word, str) for word in words) else None


def _instruction(line: str) -> Instruction:
    word, _, rest = line.partition(" ")
    if word.upper() not in _KNOWN or not rest.strip():
        raise ValueError(f"'{line}' is no instruction that is known here")
    flags = []
    while match := re.match(r"\s*(--[\w-]+=\S+)\s+", rest):
        flags.append(match[1])
        rest = rest[match.end() :]
    return Instruction(word.upper(), frozenset(flags), rest.strip())
