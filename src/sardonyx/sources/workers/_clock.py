"""A limit of the time that one call of the user's model may take."""

import contextlib
import signal
import threading


class TooSlow(Exception):
    """An input that takes far longer than the others, such as a count that the model loops over."""


@contextlib.contextmanager
def within(limit):
    """Ends the block by `TooSlow` after so many seconds, where the system can (the main thread of a Unix process)."""
    able = limit and hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not able:
        yield
        return

    def stop(number, frame):
        raise TooSlow("no answer within %g s" % limit)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
