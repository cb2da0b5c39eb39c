"""Every conversion of the matrix: a name, and what `sardonyx.convert` is given. docs/conversions.md holds what came out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boosting_zoo
import jax_models
import real
import sklearn_zoo
import tensorflow_models
import torch_real
import torch_traps

TRAPS = "Traps"
TABLE = Path(__file__).parent.parent / "docs" / "conversions.md"
Arguments = tuple[Any, dict[str, Any]]
# One line each about what the rows of a group are.
GROUPS = {
    "PyTorch, traps": "Small modules written to mislead an exporter.",
    "PyTorch, real": "Published weights in the architecture they belong to, and Silero's TorchScript.",
    "Keras and TensorFlow": "Factories, and files of published models.",
    "scikit-learn": "Estimators fitted on the data sets that come with scikit-learn.",
    "boosting": "XGBoost, LightGBM and CatBoost: objectives, boosters, missing values and categories.",
    "JAX": "Functions, Flax and Equinox modules.",
}


def cases() -> Iterator[tuple[str, str, Callable[[], Arguments]]]:
    """(group, name, what to give to `convert`), nothing of it built yet."""
    for name in torch_traps.TRAPS:
        yield "PyTorch, traps", name, lambda name=name: _trap(name)
    for name in torch_real.REAL:
        yield "PyTorch, real", name, lambda name=name: _torch(name)
    for name in (*tensorflow_models.KERAS, *tensorflow_models.FUNCTIONS):
        yield "Keras and TensorFlow", name, lambda name=name: _tensorflow(name)
    for file in tensorflow_models.REAL:
        yield "Keras and TensorFlow", file.rpartition("/")[2], lambda file=file: _tensorflow_file(file)
    for name in sklearn_zoo.ZOO:
        yield "scikit-learn", name, lambda name=name: (sklearn_zoo.fitted(name), {"example": sklearn_zoo.example(name)})
    for name in boosting_zoo.ZOO:
        yield "boosting", name, lambda name=name: (boosting_zoo.fitted(name), {"example": boosting_zoo.example(name)})
    for name, inputs in jax_models.INPUTS.items():
        yield "JAX", name, lambda name=name, inputs=inputs: (f"{jax_models.__file__}:{name}", {"inputs": inputs})


def _trap(name: str) -> Arguments:
    trap = torch_traps.TRAPS[name]
    return trap.factory(), {"inputs": trap.inputs, "example": trap.example()}


def _torch(name: str) -> Arguments:
    case = torch_real.REAL[name]
    return case.source(), {"inputs": case.inputs, "weights": case.weights_path(), "example": case.example()}


def _tensorflow(name: str) -> Arguments:
    inputs = {**tensorflow_models.KERAS, **tensorflow_models.FUNCTIONS}[name].inputs
    return f"{tensorflow_models.__file__}:{name}", {"inputs": inputs}


def _tensorflow_file(file: str) -> Arguments:
    return real.path(file), {"inputs": tensorflow_models.REAL[file]}


def row(candidates: list[dict[str, Any]]) -> str:
    """The verdict of every route in one cell: 'dynamo agrees, script wrong'. Repairs are named."""
    if not candidates:
        return "none refused: the original is random or carries a state"
    return ", ".join(f"{c['route']} {'repaired' if c['repairs'] else c['verdict']}" for c in candidates)


def committed() -> dict[tuple[str, str], str]:
    """(group, name) -> the verdicts that docs/conversions.md records."""
    return {(group, cells[0]): cells[1] for group, cells in _rows() if not group.startswith(TRAPS)}


def committed_traps() -> dict[tuple[str, str], tuple[str, ...]]:
    """(class, name) -> framework, verdict, routes, findings and outcome of every trap, as docs/conversions.md records them."""
    start = f"{TRAPS}: "
    return {(group.removeprefix(start), cells[0]): cells[1:] for group, cells in _rows() if group.startswith(start)}


def _rows() -> Iterator[tuple[str, tuple[str, ...]]]:
    """(group, cells) of every row of the page."""
    group = ""
    for line in TABLE.read_text().splitlines() if TABLE.exists() else ():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        elif line.startswith("### "):
            group = f"{TRAPS}: {line.removeprefix('### ')}"
        elif line.startswith("| ") and not line.startswith(("| model ", "| class ")):
            yield group, tuple(cell.strip() for cell in line.strip("|").split("|"))


def page(rows: dict[tuple[str, str], str], traps: dict[tuple[str, str], tuple[str, ...]]) -> str:
    """docs/conversions.md, from the verdicts of every case and of every trap."""
    routes = [verdict.split(" ")[-1] for verdicts in rows.values() for verdict in verdicts.split(", ")]
    counts = ", ".join(f"{routes.count(kind)} {kind}" for kind in ("agrees", "repaired", "wrong", "refused"))
    parts = [
        "# What converts, by which route\n",
        "Written by `make conversions`; `make test` replays one row in four. Each export was compared with the original on "
        "the example, on other sizes of every dynamic dimension, and on inputs that reach other branches. *agrees*: right on "
        "every probe. *repaired*: wrong as exported, right after a repair. *wrong*: gives other numbers, or fails, where the "
        "original answers. *refused*: the exporter says no.\n",
        f"{len(rows)} models, {len(routes)} exports: {counts}.\n",
    ]
    for group, about in GROUPS.items():
        lines = [f"| {name} | {verdicts} |" for (where, name), verdicts in rows.items() if where == group]
        parts += [f"## {group}\n", f"{about}\n", "\n".join(["| model | routes |", "|---|---|", *lines]) + "\n"]
    return "\n".join([*parts, *_traps_section(traps)])


def _traps_section(traps: dict[tuple[str, str], tuple[str, ...]]) -> Iterator[str]:
    """The section about the traps: how many of each class came out how, then every trap."""
    if not traps:
        return
    yield f"## {TRAPS}\n"
    yield (
        "Models that a user might write and an exporter gets wrong, and honest ones of the same kind, in `tests/traps`. The "
        "truth about an export is not decided by our own search: every trap has inputs of its own that spring it, on which the "
        "original, called in its framework, and the file in plain onnxruntime are compared. *right*: what was handed over "
        "agrees on them. *said*: it does not, and a finding says so, or nothing was handed over and no exporter's file is "
        "right. *refused though right*: nothing was handed over although an exporter's file is right. *not named*: nothing was "
        "handed over, and no finding names the chance or the state. *model changed*: converting changed it. *handed over wrong*: "
        "without a word.\n"
    )
    classes = list(dict.fromkeys(name for name, _ in traps))
    lines = [f"| {name} | " + " | ".join(map(str, _counts(traps, name))) + " |" for name in (*classes, "")]
    head = ["| class | models | " + " | ".join(OUTCOMES) + " |", "|---|" + "---|" * (1 + len(OUTCOMES))]
    yield "\n".join([*head, *lines[:-1], lines[-1].replace("|  |", "| all |", 1)]) + "\n"
    for name in classes:
        cells = [f"| {model} | {' | '.join(found)} |" for (where, model), found in traps.items() if where == name]
        head = ["| model | framework | verdict | routes | findings | outcome |", "|---|---|---|---|---|---|"]
        yield from (f"### {name}\n", "\n".join([*head, *cells]) + "\n")


OUTCOMES = ("right", "said", "refused though right", "not named", "model changed", "handed over wrong")


def _counts(traps: dict[tuple[str, str], tuple[str, ...]], name: str) -> list[int]:
    outcomes = [found[-1] for (where, _), found in traps.items() if name in (where, "")]
    return [len(outcomes), *(outcomes.count(word) for word in OUTCOMES)]
