"""A worker that opens a stranger's file: it confines itself first, and keeps what the file tries in spite of that."""

import importlib
import os
import re
import site
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
# What a model has tried to do that no model does, in words.
ATTEMPTS = []
ESCAPES = {
    "os.system": "to run a program", "os.exec": "to run a program", "os.fork": "to start a process",
    "os.forkpty": "to start a process", "socket.connect": "to reach the network", "socket.bind": "to open a port",
}  # fmt: skip
ESCAPED = "do not open it with --trust: it holds code that has no place in a model"
SANDBOXED = "it tried to leave its sandbox, which no model needs; pass --trust only if you made it yourself"
DENIED = re.compile(r"(?i)permission ?denied|operation not permitted|EACCES|EPERM")
STATE = {"confined": False, "watched": False}


class Refused(Exception):
    """What was handed in does what it may not: a line that says what, and a hint."""

    def __init__(self, message, hint=""):
        super().__init__(message)
        self.hint = hint


def add_folders():
    """What the user put on the path, after the standard library, as in ../../_isolated.py: `python -I` leaves it out."""
    here = os.path.realpath(os.getcwd())
    folders = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(entry)]
    if "PYTHONNOUSERSITE" not in os.environ:
        folders.append(site.getusersitepackages())
    installed = [place for place, folder in enumerate(sys.path) if folder.endswith("-packages")]
    at = installed[0] if installed else len(sys.path)
    sys.path[at:at] = [entry for entry in folders if os.path.isdir(entry) and os.path.realpath(entry) != here]


def confine(wanted):
    """Confines this process by sandbox.py of the Sardonyx that started it."""
    package = types.ModuleType("sardonyx_sandbox")
    package.__path__ = [os.path.dirname(os.path.dirname(HERE))]
    sys.modules[package.__name__] = package
    sandbox = importlib.import_module(package.__name__ + ".sandbox")
    sandbox.confine(sandbox.Confinement.from_dict(wanted))
    STATE["confined"] = True


def watch():
    """From here on, attempts to leave the sandbox are kept. The framework itself is imported by now."""
    if STATE["confined"] and not STATE["watched"]:
        STATE["watched"] = True
        sys.addaudithook(lambda event, _: ATTEMPTS.append(ESCAPES[event]) if event in ESCAPES else None)


def escape():
    """The error for a model that tried to leave the sandbox."""
    return Refused("it tried %s and was kept from it" % ATTEMPTS[0], ESCAPED)


def hint(error):
    """What to say of an error that the sandbox may be the cause of."""
    return SANDBOXED if STATE["confined"] and DENIED.search(str(error)) else ""
