"""convert: a trained model becomes an ONNX model that agrees with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sardonyx.report import Report


def convert(
    source: Any,
    output: str | Path,
    *,
    inputs: Sequence[str] = (),
    example: Any = None,
    weights: str | Path | None = None,
    opset: int | None = None,
    route: str = "auto",
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    training: bool = False,
    python: str | Path | None = None,
    trust: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 300,
    data: Any = None,
    label: str | None = None,
    allow_random: bool = False,
    first_call: bool = False,
    state: bool = False,
    search: float | None = None,
    seed: int = 0,
) -> Report:
    """Writes the best export of `source` on which the search finds no difference; nothing is written if there is none.

    `source` is a live object (`nn.Module`, estimator), a file, or `module:factory` / `file.py:factory`. `inputs` are specs
    such as `x=float32[batch,3,32,32]`; `example` is a file of arrays, a DataFrame, or arrays and tensors: one, a dict by name, or
    a tuple in order, dicts and tuples inside included. `python` names another interpreter that has the framework. `trust`
    allows pickles. `data` are inputs of yours that the search starts from, in their own precision. `rtol` and `atol` add to
    the measured tolerance. `search` bounds the seconds that the original is asked in. A model that is random or carries a
    state is refused unless `allow_random`, `first_call` or `state` says how to treat it: `state` makes what a call changes in a
    PyTorch module an input and an output of the export, named `state_NAME` and `next_NAME`.
    """
    from sardonyx.convert.tournament import Settings, run_tournament

    settings = Settings(
        inputs=tuple(inputs), example=example, weights=weights, opset=opset, route=route, input_names=tuple(input_names),
        output_names=tuple(output_names), training=training, python=python, trust=trust, rtol=rtol, atol=atol,
        timeout=timeout, data=data, label=label, allow_random=allow_random, first_call=first_call, state=state,
        search=search, seed=seed,
    )  # fmt: skip
    return run_tournament(source, Path(output), settings)
