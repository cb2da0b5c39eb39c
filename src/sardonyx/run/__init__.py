"""run: inputs into outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sardonyx.model import Model
    from sardonyx.report import Report


def run(
    model: str | Path | Model,
    inputs: Mapping[str, Any] | None = None,
    *,
    data: str | Path | None = None,
    output: str | Path | None = None,
    provider: str = "cpu",
    threads: int | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Report:
    """The outputs of the model, as arrays in `report.artifacts["outputs"]` and in the file `output` if one is named.

    `inputs` maps names to arrays, lists, files (.npy, .npz, .safetensors, images), or a type with a shape to generate, as
    "float32[1,3,32,32]". A number fills an input that is no scalar. `data` is a file with several inputs by name. What neither
    gives is generated from `seed`, with dynamic dimensions sized by `sizes`, and the report says so.
    """
    from sardonyx.run.once import run_once

    return run_once(
        model,
        inputs or {},
        data=data,
        output=output,
        provider=provider,
        threads=threads,
        sizes=dict(sizes or {}),
        seed=seed,
    )
