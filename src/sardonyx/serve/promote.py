"""Whether a model that was loaded anew may take the place of the old one: by golden cases and by the answers to real requests."""

from __future__ import annotations

from sardonyx.agreement import Judgement, for_share, judge
from sardonyx.errors import BrokenModel
from sardonyx.golden import GOLDEN, load
from sardonyx.serve.served import Served
from sardonyx.signature import Array

_GENERATED = 4


def must_be_good(new: Served, old: Served | None, share: float | None) -> None:
    """Raises `BrokenModel` where the new model breaks its golden cases, or answers otherwise than the old one.

    Golden cases have the tolerances that were measured when they were made. Of the old model the latest requests are asked
    again, or generated ones where there were none, and answers may differ by a `share` of an output's largest value. Without
    a share, a model that answers otherwise is taken for an improvement.
    """
    _must_hold_golden_cases(new)
    if old is None or share is None:
        return
    if old.metadata["inputs"] != new.metadata["inputs"] or old.metadata["outputs"] != new.metadata["outputs"]:
        raise BrokenModel(
            f"{new.path} takes or gives other tensors than the model it replaces", hint="give it a new name"
        )
    names = old.terms.output_names
    for inputs in old.recent() or _generated(old):
        expected = old.run(names, inputs)
        judged = judge(expected, new.run(names, inputs), for_share(expected, share), names=names)
        _must_agree(new, judged, "the model it replaces")


def _must_hold_golden_cases(new: Served) -> None:
    """Replays the golden cases that lie beside the model, as a bundle and a package have them."""
    path = new.path.parent / GOLDEN
    if not path.is_file() or path.is_symlink():
        return
    golden, names = load(path), new.terms.output_names
    for index, case in enumerate(golden.cases):
        if set(case.inputs) != set(new.terms.inputs):
            raise BrokenModel(f"{path} does not hold the inputs of the model", hint="ship the model again")
        answer = new.run(names, [case.inputs[name] for name in new.terms.inputs])
        _must_agree(new, golden.judge(index, dict(zip(names, answer, strict=True))), "its golden case")


def _must_agree(new: Served, judged: Judgement, what: str) -> None:
    for output in judged.outputs:
        if output.verdict == "mismatch":
            why = output.note or f"by {output.max_abs:.3g} at most, where {output.tolerance:.3g} is allowed"
            raise BrokenModel(
                f"{new.path}: output {output.name} differs from that of {what}: {why}",
                hint="look for the difference with sardonyx compare, or load it under a new name",
            )


def _generated(served: Served) -> list[list[Array]]:
    drawn = [served.signature.sample(seed=seed) for seed in range(_GENERATED)]
    return [[arrays[name] for name in served.terms.inputs] for arrays in drawn]
