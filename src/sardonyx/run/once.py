"""One run of a model, and the answer to a task if one is asked, told in a report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sardonyx import arrays, files
from sardonyx.errors import RuntimeRefused, UsageError
from sardonyx.model import Model
from sardonyx.progress import task
from sardonyx.report import Finding, Report, Table
from sardonyx.run import drawing
from sardonyx.run import outputs as results
from sardonyx.run.inputs import Inputs, prepare
from sardonyx.run.session import Session, Settings
from sardonyx.run.shown import Shown
from sardonyx.run.task import Question, Task
from sardonyx.signature import Signature, dims

CODES = {
    "not-finite": "An output has NaN or infinite values.",
    "not-written": "An output is a sequence or a map, which an .npz file does not hold.",
}


def run_once(
    model: str | Path | Model,
    inputs: Mapping[str, Any],
    *,
    data: Any,
    label: str | None = None,
    output: str | Path | None,
    provider: str,
    threads: int | None,
    sizes: Mapping[str, int],
    seed: int,
    asked: Task | None = None,
    embed: str | Path | None = None,
) -> Report:
    """The report of `sardonyx.run`."""
    settings = Settings(provider, threads)
    target = None if output is None else _target(output, asked)
    if embed is not None:
        files.check_target(embed)
    with task("loading the model"):
        loaded = Model.load(model)
        signature, settings = Signature.of(loaded.ir.graph), settings.filled_from(loaded)
        question = None if asked is None else Question.of(asked, loaded, signature)
        del loaded
    shown = None if question is None else Shown.of(question, inputs, sizes)
    given = inputs if shown is None else {**inputs, shown.name: shown.picture.array}
    prepared = prepare(signature, given, data=data, label=label, sizes=sizes, seed=seed)
    if shown is not None:
        prepared = replace(prepared, origins={**prepared.origins, shown.name: shown.said})
    with task("opening a session"):
        session = Session(model, settings, signature=signature)
    with task("running the model"):
        outputs, seconds = _timed(session, prepared)
    answer = None if shown is None else shown.answer(outputs)
    refused = {} if target is None or target.suffix != ".npz" else _write(target, outputs)
    report = _report(prepared, outputs, seconds, settings, target, refused)
    if shown is None or answer is None:
        return report
    return shown.told(report, answer, drawn=target, embedded=shown.embedded(answer, model, embed, prepared, settings))


def _timed(session: Session, prepared: Inputs) -> tuple[dict[str, Any], float]:
    start = time.perf_counter()
    try:
        outputs = session.run_fitted(prepared.arrays)
    except RuntimeRefused as error:
        free = [f"{name}=N" for name in session.signature.dynamic]
        if not prepared.made or not free:
            raise
        # The likeliest cause is a size that nobody chose but us.
        chosen = ", ".join(f"{name}={_type(prepared.arrays[name])}" for name in prepared.made)
        hint = f"the sizes of {chosen} were made up; give others with --size {' or '.join(free)}, or give the input"
        raise RuntimeRefused(error.message, hint=hint) from error
    return outputs, time.perf_counter() - start


def _target(output: str | Path, asked: Task | None) -> Path:
    """The path to write, refused before the work is done and not after it."""
    path = Path(output)
    if asked is not None and asked.name == "detect" and path.suffix != ".npz":
        return drawing.check_target(path)
    if path.suffix != ".npz":
        raise UsageError(f"{path} does not end in .npz", hint=f"outputs are written as .npz: -o {path.stem}.npz")
    files.check_target(path)
    return path


def _write(target: Path, outputs: Mapping[str, Any]) -> dict[str, str]:
    """Writes what an .npz can hold and gives the outputs that it cannot, with the reason."""
    writable, refused = results.as_arrays(outputs)
    arrays.write_npz(target, writable)
    return refused


def _report(
    prepared: Inputs,
    outputs: Mapping[str, Any],
    seconds: float,
    settings: Settings,
    target: Path | None,
    refused: Mapping[str, str],
) -> Report:
    described = [results.describe(name, value) for name, value in outputs.items()]
    given = [
        {"name": name, "dtype": _dtype(value), "shape": list(getattr(value, "shape", ())), "origin": prepared.origins[name]}
        for name, value in prepared.arrays.items()
    ]  # fmt: skip
    rows = tuple((name, _type(value), prepared.origins[name]) for name, value in prepared.arrays.items())
    shown = (Table("inputs", ("input", "type", "from"), rows),) if rows else ()
    return Report(
        "run",
        "ok",
        ok=True,
        fields={
            "inputs": given,
            "outputs": described,
            "seconds": seconds,
            "provider": settings.provider,
            "threads": settings.thread_count,
            "path": None if target is None else str(target),
        },
        findings=tuple(_findings(described, refused, target)),
        tables=(*shown, results.table(described)),
        summary=_summary(len(described), seconds, settings, prepared.generated, target),
        artifacts={"outputs": outputs, "inputs": prepared.arrays},
    )


def _findings(described: list[dict[str, Any]], refused: Mapping[str, str], target: Path | None) -> list[Finding]:
    found = []
    for item in described:
        if item.get("nan") or item.get("inf"):
            message = f"has {item['nan']:,} NaN and {item['inf']:,} infinite values"
            found.append(Finding("warning", "not-finite", f"output {item['name']}", message))
    for name, reason in refused.items():
        message = f"is not in {target}: {reason} does not fit an .npz"
        hint = 'from Python, take it from sardonyx.run(...).artifacts["outputs"]'
        found.append(Finding("warning", "not-written", f"output {name}", message, hint))
    return found


def _summary(count: int, seconds: float, settings: Settings, generated: tuple[str, ...], target: Path | None) -> str:
    threads = settings.thread_count
    parts = [
        f"{count} {'output' if count == 1 else 'outputs'} in {took(seconds)} on {settings.provider} "
        f"with {threads} {'thread' if threads == 1 else 'threads'}"
    ]
    if generated:
        parts.append(f"generated: {', '.join(generated)}")
    if target is not None:
        parts.append(f"written to {target}")
    return "; ".join(parts)


def took(seconds: float) -> str:
    """0.0123 -> '12.3 ms'."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _dtype(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else "string" if dtype.hasobject else str(dtype)


def _type(value: Any) -> str:
    return f"{_dtype(value)}{dims(getattr(value, 'shape', ()))}"
