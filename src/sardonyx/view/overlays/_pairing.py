"""Which tensors of two forms of one model belong together."""

from __future__ import annotations

from collections.abc import Iterable

from sardonyx.compare.align import Alignment, align
from sardonyx.compare.flow import Flow
from sardonyx.errors import UsageError


def aligned(theirs: Flow, mine: Flow) -> Alignment:
    """Which tensors belong together, given that the inputs and outputs do: by name, or by place where the names differ."""
    return align(
        theirs, mine, _paired("inputs", mine.inputs, theirs.inputs), _paired("outputs", mine.outputs, theirs.outputs)
    )


def _paired(what: str, mine: Iterable[str], theirs: Iterable[str]) -> dict[str, str]:
    own, other = list(mine), list(theirs)
    if set(own) == set(other):
        return {name: name for name in own}
    if len(own) != len(other):
        raise UsageError(
            f"the models differ in their {what}: {', '.join(own)} and {', '.join(other)}",
            hint="--against takes another form of the same model",
        )
    return dict(zip(own, other, strict=True))
