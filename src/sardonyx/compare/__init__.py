"""compare: is a model the same as its reference, and if not, where does it part ways?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sardonyx.report import Report


def compare(
    reference: Any,
    candidate: Any,
    *,
    data: Any = None,
    label: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    localize: bool = True,
    memory: int = 1 << 30,
    seed: int = 0,
    **source_options: Any,
) -> Report:
    """`equal`, `rounding` or `mismatch` for every output of `candidate`, an ONNX model, against `reference`, any source.

    `data` is what `Samples.open` takes; what `label` names in it, else `label`, is no input. The tolerance is measured from the
    reference's own rounding unless `rtol` or `atol` is given. On a mismatch the first diverging node is searched for. At most
    `memory` bytes of intermediate tensors are held at a time.
    """
    from sardonyx.compare.verdict import compare_models
    from sardonyx.dataset import Dataset

    return compare_models(
        reference,
        candidate,
        data=Dataset.of(data, label, ignored=True),
        rtol=rtol,
        atol=atol,
        localize=localize,
        memory=memory,
        seed=seed,
        source_options=source_options,
    )
