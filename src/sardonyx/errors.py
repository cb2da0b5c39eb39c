"""Every error a user can meet: what happened, what to do next, and a code that never changes.

SardonyxError
├── UsageError          usage             exit 2   the words of the call are off
├── InputError          bad-input         exit 2   something handed in cannot be used
│   ├── NotFound        not-found         exit 2   a file or name is not there
│   ├── NotAModel       not-a-model       exit 2   the bytes are not an ONNX model
│   ├── BrokenModel     broken-model      exit 2   an ONNX model, but damaged or dangerous
│   ├── BadData         bad-data          exit 2   arrays that do not fit the model
│   ├── UnsafePath      unsafe-path       exit 2   a name or file that leads out of its folder
│   ├── UnknownSource   unknown-source    exit 2   nobody here can convert this
│   ├── Untrusted       untrusted         exit 2   a pickle, and no --trust
│   └── NoGradient      no-gradient       exit 2   an operator that no gradient passes
├── SourceFailed        source-failed     exit 2   the user's own model code raised
├── RuntimeRefused      runtime-refused   exit 2   the runtime would not load or run the model
├── Contained           contained         exit 2   the process that met a file crashed, or went over its limits
├── OutputError         output            exit 2   the result could not be written
├── Internal            internal          exit 2   a fault of Sardonyx itself
├── Interrupted         interrupted       exit 130 the user or the system asked it to stop
└── MissingExtra        missing-extra     exit 3   an optional package is not installed
"""

from __future__ import annotations

from typing import ClassVar


class SardonyxError(Exception):
    """The parent of every error that Sardonyx raises on purpose."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def to_dict(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message, "hint": self.hint}


class UsageError(SardonyxError):
    """The words of the call are off: an unknown option, a value that does not parse."""

    code = "usage"


class InputError(SardonyxError):
    """Something handed in cannot be used."""

    code = "bad-input"


class NotFound(InputError):
    """A file or a name is not there."""

    code = "not-found"


class NotAModel(InputError):
    """The bytes are not an ONNX model."""

    code = "not-a-model"


class BrokenModel(InputError):
    """An ONNX model, but damaged or dangerous to open."""

    code = "broken-model"


class BadData(InputError):
    """Arrays that do not fit the model's inputs."""

    code = "bad-data"


class UnsafePath(InputError):
    """A name that leads out of its folder, or a file that is a link, not a plain file or larger than it may be."""

    code = "unsafe-path"

    def __init__(self, message: str, *, hint: str = "", problem: str = "", reason: str = "") -> None:
        super().__init__(message, hint=hint or "get the folder again from where it came from, or copy the file into it")
        self.problem, self.reason = problem or message, reason


class UnknownSource(InputError):
    """No converter here knows this kind of source."""

    code = "unknown-source"


class Untrusted(InputError):
    """Opening this would run code from the file, and nobody said to trust it."""

    code = "untrusted"


class NoGradient(InputError):
    """An operator of the model that no gradient passes."""

    code = "no-gradient"


class SourceFailed(SardonyxError):
    """The user's own model code raised while Sardonyx called it."""

    code = "source-failed"


class RuntimeRefused(SardonyxError):
    """The runtime would not load or run the model."""

    code = "runtime-refused"


class Contained(SardonyxError):
    """The process that met a stranger's file crashed, or used up its time or memory, and was ended."""

    code = "contained"


class OutputError(SardonyxError):
    """The result could not be written."""

    code = "output"


class Internal(SardonyxError):
    """A fault of Sardonyx itself."""

    code = "internal"


class Interrupted(SardonyxError):
    """The user or the system asked the command to stop."""

    code = "interrupted"
    exit_code = 130


class MissingExtra(SardonyxError):
    """An optional package is not installed."""

    code = "missing-extra"
    exit_code = 3

    def __init__(self, needed_for: str, extra: str) -> None:
        super().__init__(f"{needed_for} needs the extra '{extra}', which is not installed")
        self.hint = f"pip install 'sardonyx[{extra}]'"
