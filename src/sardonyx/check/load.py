"""A real session load by the installed onnxruntime, in a child process."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx import runtime
from sardonyx.check._releases import refused_versions
from sardonyx.check._subject import Load, Subject
from sardonyx.report import Finding, human_bytes

CODES = {
    "load-refused": "The installed onnxruntime does not load the model.",
    "load-crashed": "onnxruntime crashed while it loaded the model.",
    "load-timeout": "onnxruntime did not finish loading the model in the time it was given.",
    "load-memory": "onnxruntime needs more memory to load the model than its size explains.",
}
_HINTS = {
    "load-refused": "the other findings name the cause where it is known; --fix OUT tries the smallest repair",
    "load-crashed": "do not load this model in a process that must live; export it again, or report it to onnxruntime",
    "load-timeout": "raise --timeout if the model is known to load slowly; else look for huge constant computations",
    "load-memory": "look for constants that make a tensor huge (ConstantOfShape, Expand, Tile, Range)",
}


def findings(subject: Subject) -> Iterator[Finding]:
    """How the load failed, if it did."""
    load = subject.load
    if load.ok or load.state == "skipped":
        return
    code = f"load-{load.state}"
    # Versions that only the release in question knows are no fault of the model.
    excused = subject.limits.release != runtime.limits().release and refused_versions(subject, runtime.limits())
    yield Finding("warning" if excused else "error", code, subject.name, _message(load, subject), _HINTS[code])


def _message(load: Load, subject: Subject) -> str:
    name = f"onnxruntime {runtime.installed_release()}"
    if load.state == "refused":
        return f"{name} does not load the model: {load.message}"
    if load.state == "crashed":
        return f"{name} crashed while it loaded the model: {load.message}"
    if load.state == "timeout":
        return f"{name} did not load the model within {subject.budget.cpu:.0f} s of computing"
    return f"{name} wants more than {human_bytes(subject.budget.memory)} to load a model of {human_bytes(subject.size)}"
