"""Which sources are programs, and what the process that opens a source may do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sardonyx import containment, sandbox
from sardonyx.errors import Untrusted
from sardonyx.sandbox import Confinement
from sardonyx.sources._recognise import Source

# Forms that can write files, reach the network or run Python when they are opened or called: what they are called.
PROGRAMS = {
    "program": "a torch.export program",
    "torchscript": "TorchScript",
    "saved-model": "a SavedModel",
    "graph": "a TensorFlow graph",
    "h5": "an HDF5 file of Keras",
}
SANDBOX = "a sandbox: no network, no other process, and no file but its own and a scratch folder"


def is_program(source: Source) -> bool:
    """Whether a stranger's file of this form is code, and the user has not said to trust it."""
    return source.form in PROGRAMS and not source.trust and not _of_the_user(source)


def must_be_contained(source: Source) -> None:
    """Raises `Untrusted` for a program where the kernel has nothing to contain it with."""
    if is_program(source) and not sandbox.holds():
        raise Untrusted(
            f"{source} is {PROGRAMS[source.form]}, which is a program, and this system has no sandbox to run it in",
            hint="pass --trust if you made it yourself; Linux with Landlock and seccomp has one, see sardonyx doctor",
        )


def confinement_of(source: Source, writes: Iterable[Path], reads: Iterable[Path]) -> Confinement | None:
    """What the process that opens the source may do; None, which is everything, for code that the user named or trusts."""
    must_be_contained(source)
    if source.trust or _of_the_user(source):
        return None
    named = [path for path in (source.path, source.weights) if path is not None]
    return Confinement(
        reads=tuple(str(folder) for path in named for folder in _around(path)) + tuple(map(str, reads)),
        writes=tuple(map(str, writes)),
        memory=containment.address_space(*named),
    )


def _of_the_user(source: Source) -> bool:
    """A factory in a file that the user named, or an object of the user's own program that was written to a file."""
    return source.form == "factory" or bool(source.staged) or source.live


def _around(path: Path) -> Iterable[Path]:
    real = Path(os.path.realpath(path))
    return (real,) if real.is_dir() else (path.absolute().parent, real)
