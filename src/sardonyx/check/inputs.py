"""Inputs that no output depends on."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx import reach
from sardonyx.check._subject import Subject
from sardonyx.errors import SardonyxError
from sardonyx.model import Model
from sardonyx.report import Finding

CODES = {"unused-input": "No output depends on an input: most often the exporter took its value as a constant."}


def findings(subject: Subject) -> Iterator[Finding]:
    """Inputs whose value does not matter. A model that cannot be read has other findings."""
    try:
        model = Model.from_proto(subject.examination.typed)
    except SardonyxError:
        return
    yield from reach.findings(model)
