"""Whose process this is: that of one command, which may make settings of the whole process, or that of a program."""

from __future__ import annotations

_command = ""


def belongs_to(command: str) -> None:
    """Said once, by the entry point of the `sardonyx` command."""
    global _command
    _command = command


def command() -> str:
    """The command that the process does and then ends, empty in a program's process."""
    return _command
