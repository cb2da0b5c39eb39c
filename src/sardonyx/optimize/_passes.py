"""All passes of the folder, in their order, until none of them changes anything."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import onnx_ir as ir
from onnx_ir.passes.common import NameFixPass, OutputFixPass, ShapeInferencePass

from sardonyx import registry
from sardonyx.optimize.passes._rewrite import Note, Pass
from sardonyx.optimize.passes.remove_cast_pairs import RemoveCastPairs

PACKAGE = "sardonyx.optimize.passes"
# A round costs little, and what one pass leaves the next may need another time: real models settle in two to four.
ROUNDS = 6


def all_passes() -> dict[str, type[Pass]]:
    """The pass of every file, by the file's name, in the order in which they run."""
    found: dict[str, type[Pass]] = {}
    for name in registry.names(PACKAGE):
        module = registry.load(PACKAGE, name)
        kinds = [item for item in vars(module).values() if inspect.isclass(item) and issubclass(item, Pass)]
        (found[name],) = (kind for kind in kinds if kind.__module__ == module.__name__)
    return dict(sorted(found.items(), key=lambda item: item[1].order))


def apply(model: ir.Model, passes: Sequence[Pass] | None = None, *, rounding: bool = False) -> list[Note]:
    """Runs the passes, all by default, over the model in rounds, and gives what they did and where they declined at last."""
    chosen = list(passes) if passes is not None else [kind() for kind in all_passes().values()]
    for item in chosen:
        if isinstance(item, RemoveCastPairs):
            item.rounding = rounding
    done: list[Note] = []
    for _ in range(ROUNDS):
        with _quiet():
            ShapeInferencePass(check_type=False, strict_mode=False)(model)
        for item in chosen:
            item.notes = []
            item(model)
        notes = [note for item in chosen for note in item.notes]
        done += [note for note in notes if note.done]
        if not any(note.done for note in notes):
            break
    for last in (OutputFixPass(), NameFixPass()):
        last(model)
    return done + [note for note in notes if not note.done]


@contextmanager
def _quiet() -> Iterator[None]:
    """Shape inference that fails leaves the model as it is, which is an answer and not worth a warning."""
    logger = logging.getLogger("onnx_ir.passes.common.shape_inference")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
