"""Whose process this is: a command's own, in which settings of the whole process may be made, or that of a program."""

from __future__ import annotations

_ours = False


def belongs_to_a_command() -> None:
    """Said once, by the entry point of the `sardonyx` command."""
    global _ours
    _ours = True


def is_ours() -> bool:
    return _ours
