"""Keeps what an exporter prints off the terminal of whoever called it. Needs the standard library alone."""

import contextlib
import os
import sys
import threading

# How many blocks are open in this process, and what the outermost of them has to put back.
_lock = threading.RLock()
_open = []
_kept = []


@contextlib.contextmanager
def silent():
    """Nothing printed inside the block is seen, by Python or by libraries that write to file descriptors themselves.

    It holds for the whole process, other threads included, until the last such block ends. A worker in a process of its own
    keeps its log, which is read if the process dies: there only stdout is led to stderr.
    """
    if __package__ == "sardonyx_workers":
        with contextlib.redirect_stdout(sys.stderr):
            yield
        return
    with _lock:
        if not _open:
            _close_streams()
        _open.append(None)
    try:
        yield
    finally:
        with _lock:
            _open.pop()
            if not _open:
                _put_back()


def _close_streams():
    nowhere = open(os.devnull, "w")  # noqa: SIM115  closed in _put_back
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()  # what was printed before belongs to the terminal
    _kept.append((nowhere, sys.stdout, sys.stderr, {number: os.dup(number) for number in (1, 2) if _is_open(number)}))
    sys.stdout = sys.stderr = nowhere
    for number in _kept[-1][-1]:
        os.dup2(nowhere.fileno(), number)


def _put_back():
    nowhere, sys.stdout, sys.stderr, descriptors = _kept.pop()
    for number, copy in descriptors.items():
        os.dup2(copy, number)
        os.close(copy)
    nowhere.close()


def _is_open(number):
    """A program without a terminal may have closed it."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
