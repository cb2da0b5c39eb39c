"""An interruption that lands where Python or a library loses it."""

from __future__ import annotations

import subprocess
import sys

LOST = """
import signal, time, weakref
from sardonyx.cli import _interrupt

class Thing: pass

_interrupt.listen()
thing = Thing()
watch = weakref.ref(thing, lambda _: signal.raise_signal(signal.{signal}))
try:
    del thing
    time.sleep(300)
except KeyboardInterrupt:
    print("ended", _interrupt.struck())
"""

DISGUISED = """
import signal, sys
from sardonyx.cli import _contract, _interrupt

def becomes_an_error_of_the_library():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("initialization failed") from None

import typer
_interrupt.listen()
app = typer.Typer()
app.command("x")(_contract.keeps("x", becomes_an_error_of_the_library))
sys.exit(_contract.call(lambda: app, []))
"""


def _start(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_an_interruption_lost_in_a_callback_is_raised_again() -> None:
    for signal in ("SIGINT", "SIGTERM"):
        done = _start(LOST.format(signal=signal))
        assert (done.stdout, done.stderr) == ("ended True\n", "")


def test_an_interruption_that_a_library_turned_into_an_error_is_still_one() -> None:
    done = _start(DISGUISED)
    assert done.returncode == 130
    assert done.stderr.splitlines()[0] == "error[interrupted]: interrupted"
    assert done.stderr.count("error") == 1


def test_any_other_exception_in_a_callback_is_reported_as_ever() -> None:
    done = _start(LOST.format(signal="NOTHING").replace("time.sleep(300)", "pass"))
    assert "AttributeError" in done.stderr
