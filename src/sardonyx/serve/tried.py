"""The child of `trial`: loads and runs each model in a fork, which notes before each step what it is about to do."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import external
from sardonyx.deadline import Deadline, OutOfTime
from sardonyx.errors import RuntimeRefused, SardonyxError
from sardonyx.golden import GOLDEN, load
from sardonyx.model import Model
from sardonyx.run.session import Session, Settings
from sardonyx.serve.empty import combinations_to_try
from sardonyx.serve.launch import end_with_parent
from sardonyx.serve.policy import LARGEST, sample_inputs
from sardonyx.serve.terms import Terms
from sardonyx.signature import Array

# A run with a size of 0 has next to nothing to compute.
_EMPTY_SECONDS = 5.0
# The other dynamic sizes, beside one of 0: as generated inputs have them, and all alike.
_OTHERS = (None, 3)


class Notes:
    """What a fork found of one model, in a file that a crash leaves whole: an answer, or what it was about to do."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, found: dict[str, Any]) -> None:
        unfinished = self._path.with_suffix(".new")
        unfinished.write_text(json.dumps(found))
        unfinished.replace(self._path)

    def read(self) -> dict[str, Any]:
        return dict(json.loads(self._path.read_bytes())) if self._path.exists() else {}

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)


def main() -> None:
    end_with_parent()
    request = json.load(sys.stdin)
    notes = Notes(Path(request["notes"]))
    found = [_outcome(Path(path), request, notes) for path in request["paths"]]
    Path(request["answer"]).write_text(json.dumps({"models": found}))


def _outcome(path: Path, request: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """What was found of a model, by forks of this process, which has imported what they need and begun no thread to compute."""
    refused: list[list[str]] = []
    while True:
        notes.clear()
        code = _forked(path, refused, request, notes)
        found = notes.read()
        if "answer" in found:
            return dict(found["answer"])
        if "empty" not in found:
            return {"crash": code}
        refused.append(found["empty"])


def _forked(path: Path, refused: list[list[str]], request: Mapping[str, Any], notes: Notes) -> int:
    """The exit code of a fork that tries the model."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process wherever it is
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        notes.write({"answer": _answer(path, refused, request, notes)})
    finally:
        os._exit(1)


def _answer(path: Path, refused: list[list[str]], request: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    try:
        return _try(path, refused, request, notes)
    except MemoryError:
        raise
    except SardonyxError as error:
        return {"error": error.to_dict()}
    except Exception as error:  # noqa: BLE001  whatever it is, the model is refused and named
        return {"error": RuntimeRefused(f"{path}: {type(error).__name__}: {error}").to_dict()}


def _try(path: Path, refused: list[list[str]], request: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    model = Model.load(path)
    terms = Terms(model.signature, elements=1 << 62)
    settings = Settings(provider=request["provider"], threads=request["threads"], spinning=False).filled_from(model)
    session = Session(path, settings, signature=model.signature)
    names, outputs = model.signature.input_names, terms.output_names

    def run(inputs: Sequence[Array]) -> None:
        session.run_some(outputs, dict(zip(names, inputs, strict=True)))

    run(sample_inputs(model.signature, 0))
    _run_batches(run, model, terms, request["most"] or LARGEST)
    for size in (5, 8) if request["pad"] else ():
        with suppress(SardonyxError):
            run(sample_inputs(model.signature, size, dict.fromkeys(request["pad"], size)))
    _run_golden_cases(session, path)
    return {
        "empties": _empties(session, model, refused, notes),
        "alone": not external.entries(model.to_proto()),
    }


def _run_batches(run: Any, model: Model, terms: Terms, most: int) -> None:
    """As large ones as the warm-up of the server runs. Refusals are for the warm-up to judge."""
    if not terms.batchable or most == 1:
        return
    rows = [sample_inputs(model.signature, seed) for seed in range(4)]
    for size in (4, most):
        with suppress(SardonyxError, ValueError):
            run([np.concatenate([row[place] for row in (rows * size)[:size]]) for place in range(len(rows[0]))])


def _run_golden_cases(session: Session, path: Path) -> None:
    golden = path.parent / GOLDEN
    if golden.is_file() and not golden.is_symlink():
        for case in load(golden).cases:
            with suppress(SardonyxError):
                session(case.inputs)


def _empties(session: Session, model: Model, refused: list[list[str]], notes: Notes) -> list[tuple[str, ...]]:
    """The dynamic dimensions with which the model ran, or raised, when they were 0. What contains a bad one is bad too."""
    bad, good = [set(names) for names in refused], []
    for names in combinations_to_try(model.signature):
        if any(part <= set(names) for part in bad):
            continue
        notes.write({"empty": names})
        if all(_ends(session, model, names, others) for others in _OTHERS):
            good.append(names)
        else:
            bad.append(set(names))
    return good


def _ends(session: Session, model: Model, names: Sequence[str], others: int | None) -> bool:
    sizes = dict.fromkeys(model.signature.dynamic, others) if others else {}
    drawn = model.signature.sample(sizes={**sizes, **dict.fromkeys(names, 0)})
    try:
        with Deadline(_EMPTY_SECONDS).enforced():
            session.run_fitted(drawn)
    except SardonyxError:
        return True
    except OutOfTime:
        return False
    return True


if __name__ == "__main__":
    main()
