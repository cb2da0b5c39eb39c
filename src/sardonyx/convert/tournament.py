"""Every route is run, every export is compared with the original, and the one that agrees is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sardonyx import files, history, progress
from sardonyx.convert.candidate import Candidate, rename
from sardonyx.convert.counterexample import save_counterexample
from sardonyx.convert.evaluate import Evaluation
from sardonyx.convert.inputs import Inputs, settle
from sardonyx.convert.probes import probes
from sardonyx.convert.ranking import fastest
from sardonyx.convert.spent import Spent
from sardonyx.errors import UsageError
from sardonyx.model import Model
from sardonyx.report import Report, Table
from sardonyx.sources import Original, Source, recognise

# Every exporter writes it well, and onnxruntime has loaded it since 1.14.
DEFAULT_OPSET = 18
AT_ONCE = 2


def hold(
    source: Any,
    output: Path,
    *,
    inputs: Sequence[str],
    example: Any,
    weights: str | Path | None,
    opset: int | None,
    route: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    training: bool,
    python: str | Path | None,
    trust: bool,
    rtol: float | None,
    atol: float | None,
    timeout: float,
) -> Report:
    """The tournament's report. The winner is written to `output`; if no route agrees, no model is written."""
    files.must_be_writable(output)
    recognised = recognise(source, weights=weights, python=python, trust=trust)
    routes = _routes(recognised, route)
    with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch, Original(recognised, timeout=timeout) as original:
        opened = original.processor_seconds
        description = original.describe()
        settled = settle(inputs, example, description)
        options = {
            "opset": opset or DEFAULT_OPSET,
            "input_names": [],  # the winner's inputs are renamed, so that until then all have the names of the example
            "output_names": list(output_names),
            "training": training,
        }
        asked = probes(settled.signature, settled.example, description)
        evaluation = Evaluation(
            original,
            settled,
            description,
            Path(scratch),
            opset=opset,
            output_names=output_names,
            rtol=rtol,
            atol=atol,
            training=training,
        )
        spent = Spent()
        candidates = _compete(original, evaluation, asked, routes, settled, Path(scratch), options, spent)
        with spent.on("ranking"):
            winner = fastest([c for c in candidates if c.verdict == "agrees"], settled.example)
        spent.processor += original.processor_seconds - opened + evaluation.processor_seconds
        if winner is None:
            evaluation.require_repeatable()
        else:
            assert winner.model is not None, "a candidate that agrees has a model"
            if input_names:
                rename(winner.model.ir.graph.inputs, input_names, "inputs")
            step = history.step(
                "convert", options={"source": str(recognised), "route": winner.route, **options}, repairs=winner.repairs
            )
            winner.model.record(step).save(output)
        return _report(recognised, output, candidates, winner, evaluation, spent)


def _routes(source: Source, asked: str) -> tuple[str, ...]:
    known = source.routes()
    if asked == "auto":
        return known
    if asked not in known:
        raise UsageError(
            f"a {source.plugin} source ({source.form}) has no route '{asked}'",
            hint=f"its routes are {', '.join(known)}",
        )
    return (asked,)


def _compete(
    original: Original,
    evaluation: Evaluation,
    asked: list[Any],
    routes: Sequence[str],
    inputs: Inputs,
    scratch: Path,
    options: dict[str, Any],
    spent: Spent,
) -> list[Candidate]:
    """Exports run beside each other and beside the original's own answers; a live object is only ever used by one."""

    def export(route: str) -> Any:
        return original.export(
            route, scratch / f"{route}.onnx", example=inputs.example, dynamic=inputs.dynamic, **options
        )

    with progress.task("convert", total=2 * len(routes) + 1) as advance:
        if original.source.live:
            with spent.on("original"):
                evaluation.ask(asked)
            exports = [export(route) for route in routes]
        else:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="route") as pool:
                waiting = [pool.submit(export, route) for route in routes]
                with spent.on("original"):
                    evaluation.ask(asked)
                advance(text="convert: the original has answered the probes")
                exports = [future.result() for future in waiting]
        candidates = []
        for exported in exports:
            advance(2, text=f"convert: comparing {exported.route}")
            with spent.on("comparing"):
                candidates.append(evaluation.judge(exported))
    return candidates


def _report(
    source: Source,
    output: Path,
    candidates: list[Candidate],
    winner: Candidate | None,
    evaluation: Evaluation,
    spent: Spent,
) -> Report:
    saved = {c.route: save_counterexample(c, output) for c in candidates}
    rows = tuple((c.route, _shown(c, winner), c.max_error, c.tolerance, c.seconds, c.reason) for c in candidates)
    table = Table("routes", ("route", "verdict", "max error", "tolerance", "seconds", "note"), rows)
    fields: dict[str, Any] = {
        "candidates": [c.to_dict(saved[c.route]) for c in candidates],
        "probes": evaluation.probe_names,
        "seconds": spent.to_dict() | {"exporters": sum(c.seconds for c in candidates)},
    }
    if winner is None:
        return Report(
            "convert", "no-route-agrees", False, fields={"route": None, "path": None, **fields}, tables=(table,),
            summary=f"no export of {source} agrees with it, so none was written",
        )  # fmt: skip
    model = Model.load(output)
    fields |= {
        "route": winner.route, "path": str(output), "opset": model.opset, "ir_version": model.ir_version,
        "inputs": [spec.to_dict() for spec in model.signature.inputs],
        "outputs": [spec.to_dict() for spec in model.signature.outputs],
        "repairs": list(winner.repairs),
    }  # fmt: skip
    summary = f"{output} by {winner.route}, opset {model.opset}; agrees with the original on {len(evaluation.probe_names)} probes"
    return Report(
        "convert", "converted", True, fields=fields, tables=(table,), summary=summary, artifacts={"model": model}
    )


def _shown(candidate: Candidate, winner: Candidate | None) -> str:
    return "winner" if candidate is winner else candidate.verdict
