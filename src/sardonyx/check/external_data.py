"""External data that is missing, cut off, linked or outside the model's folder."""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx.check._subject import Subject
from sardonyx.report import Finding

CODES = {
    "external-data-missing": "A tensor's bytes lie in a file that cannot be read.",
    "external-data-outside": "A tensor's bytes lie outside the model's folder.",
    "external-data-linked": "A tensor's bytes lie in a link or in something that is not a plain file.",
    "external-data-truncated": "The file with a tensor's bytes is shorter than the model says.",
}


def findings(subject: Subject) -> Iterator[Finding]:
    """What is wrong with the files that hold the weights."""
    yield from subject.trouble
