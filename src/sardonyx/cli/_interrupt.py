"""Ctrl-C and SIGTERM end a verb wherever they strike.

Python raises KeyboardInterrupt at whatever line the main thread has reached. Two places lose it: a callback of the
interpreter itself (of a weak reference, a `__del__`), which reports the exception and goes on, and a library in C++ that
makes an error of its own of it. The first is raised again a moment later; the second is known by `struck()`.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from types import FrameType
from typing import Any

AGAIN = 0.01
"""Seconds until a lost interruption is raised again: by then the callback that lost it has returned."""

_struck = False


def listen() -> None:
    """Being told to end is being interrupted: temporary files go, and so do the child processes."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _strike)
    sys.unraisablehook = _raise_again


def rest() -> None:
    """The command has ended and all is written: from here on a signal ends the process without a word."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def struck() -> bool:
    """Whether the command was told to end, so that an error after it is a consequence."""
    return _struck


def _strike(number: int, frame: FrameType | None) -> None:
    global _struck
    _struck = True
    signal.default_int_handler(number, frame)


def _raise_again(lost: Any) -> None:  # sys.UnraisableHookArgs exists for type checkers alone
    if not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
    elif not sys.is_finalizing():
        timer = threading.Timer(AGAIN, _interrupt_main)
        timer.daemon = True
        timer.start()


def _interrupt_main() -> None:
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:  # a real signal, which ends a sleep or a wait of the main thread too
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
