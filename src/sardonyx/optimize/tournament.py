"""Every way to a better graph is tried; what still gives the same answers is measured, and the best is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sardonyx import files, history, progress
from sardonyx.bench.ratio import Ratio
from sardonyx.deadline import OUT_OF_TIME, Deadline, OutOfTime
from sardonyx.errors import SardonyxError, UsageError
from sardonyx.files import temporary_folder
from sardonyx.measuring import Watch
from sardonyx.model import Model
from sardonyx.optimize import shapes as sizes
from sardonyx.optimize import timing, tuning
from sardonyx.optimize.candidates._form import Way, ways
from sardonyx.optimize.entry import INPUT, Entry
from sardonyx.optimize.gate import Gate
from sardonyx.optimize.making import make_all
from sardonyx.optimize.telling import tell
from sardonyx.report import Report
from sardonyx.run.session import store, store_level, stored_level
from sardonyx.signature import Signature

LEVELS = ("portable", "machine")
# When, as a share of the time: the input has answered, candidates are made, they are compared, they are measured.
ANSWERED, MADE, COMPARED, MEASURED = 0.5, 0.65, 0.85, 0.97
# A file that is smaller by less than this is not worth another graph.
SMALLER = 0.99
# The candidates of onnxruntime's own optimiser begin with this.
RUNTIME = "onnxruntime"


def hold(
    model: str | Path | Model,
    output: Path,
    *,
    level: str,
    shapes: sizes.Shapes,
    explain: bool,
    tune: bool,
    data: Any,
    limit: Deadline,
    measuring: float,
    seed: int,
) -> Report:
    """The tournament's report. The winner, or the input as it is, lies at `output`.

    `measuring` is how long it is worthwhile to measure; `limit` ends everything but tuning, which has as much time again.
    """
    _check(level, limit.seconds)
    files.must_be_writable(output)
    with temporary_folder() as scratch:
        source = _on_disk(model, scratch)
        base = _specialised(source, shapes, scratch)
        gate = _gate(source, Model.load(base).signature, data, seed, limit)
        # Without an answer in time, the level that the model came with is all that is known.
        safe = stored_level(Model.load(model)) if gate is None else gate.level
        original = Entry(INPUT, path=_safe(base, safe, scratch), level=safe).measured_file()
        entries = [original, *_candidates(base, scratch, level, gate, limit)]
        with Watch() as watch:
            winner, gain = _race(entries, gate, measuring, limit, seed)
        assert winner.path is not None, "a winner has a file"
        taken = limit.taken
        again = Deadline(limit.seconds)
        tuned = tuning.tune(winner.path, gate, seconds=measuring, limit=again, seed=seed) if tune and gate else None
        changed = winner.path != source or (tuned is not None and bool(tuned.settings.tuned))
        _write(winner, output, changed, source, tuned, {"level": level, "shapes": dict(shapes), "winner": winner.name})
        return tell(
            output, winner, entries, gain, tuned, before=original, explain=explain, level=level,
            doubt=None if gate is None else gate.doubt, answered=gate is not None, seconds=(limit.seconds, taken),
            others=watch.share,
        )  # fmt: skip


def _check(level: str, seconds: float) -> None:
    if level not in LEVELS:
        raise UsageError(f"there is no level '{level}'", hint=f"the levels are {' and '.join(LEVELS)}")
    if not seconds > 0:
        raise UsageError(f"cannot measure in {seconds:g} seconds", hint="give more than 0")


def _on_disk(model: str | Path | Model, scratch: Path) -> Path:
    """The model as a file: third parties' optimisers take nothing else. A model in memory is written as it is now."""
    loaded = Model.load(model)
    if not isinstance(model, Model) and stored_level(loaded) is None:
        return Path(model)
    given = Model(loaded.ir.clone())
    store_level(given, "all")  # found out anew: onnxruntime may have been mended since
    return given.save(scratch / "given.onnx")


def _specialised(source: Path, shapes: sizes.Shapes, scratch: Path) -> Path:
    return sizes.fix(Model.load(source), shapes).save(scratch / "specialised.onnx") if shapes else source


def _safe(path: Path, level: str | None, folder: Path) -> Path:
    """The model, with the level written into it at which onnxruntime answers right, where it does not by default."""
    if level is None:
        return path
    model = Model.load(path)
    store_level(model, level)
    return model.save(folder / f"safe_{path.name}")


def _gate(source: Path, signature: Signature, data: Any, seed: int, limit: Deadline) -> Gate | None:
    """The gate, or None where the model is too slow to answer what candidates are compared on."""
    try:
        with limit.at(ANSWERED).enforced():
            return Gate(source, signature, data, seed)
    except OutOfTime:
        return None


def _candidates(base: Path, scratch: Path, level: str, gate: Gate | None, limit: Deadline) -> list[Entry]:
    """All candidates, and in the place of one that is out the one that can stand for it."""
    chosen = ways(level)
    first = [way for way in chosen if way.instead_of is None]
    if gate is None:
        return [Entry(way.name).out("not-tried", OUT_OF_TIME) for way in first]
    entries = _judged(first, base, scratch, level, gate, limit)
    out = {entry.name for entry in entries if entry.verdict in ("refused", "wrong")}
    return entries + _judged([way for way in chosen if way.instead_of in out], base, scratch, level, gate, limit)


def _judged(chosen: Sequence[Way], base: Path, scratch: Path, level: str, gate: Gate, limit: Deadline) -> list[Entry]:
    """The candidates of these ways, and out what does not load, or does not give the same answers. The leanest come first."""
    entries = make_all(chosen, base, scratch, level, limit.at(MADE)) if chosen else []
    for entry in sorted(entries, key=lambda entry: entry.nodes or 0):
        if entry.path is None or not entry.standing:
            continue
        try:
            with limit.at(COMPARED).enforced():
                _judge(entry, entry.path, gate)
        except OutOfTime:
            entry.out("not-tried", OUT_OF_TIME)
    return entries


def _judge(entry: Entry, path: Path, gate: Gate) -> None:
    try:
        judgement, reason = gate.judge(path)
        if reason and gate.level is not None:
            entry.level, entry.path = gate.level, _safe(path, gate.level, path.parent)
            judgement, reason = gate.judge(entry.path)
            entry.reason = f"right only at onnxruntime's optimisation level '{gate.level}', which it says"
    except SardonyxError as error:
        entry.out("refused", error.message)
        return
    worst = max(judgement.outputs, key=lambda output: output.used, default=None)
    if worst is not None:
        entry.max_error, entry.tolerance = worst.error, worst.tolerance
    if reason and gate.doubt is not None and entry.name.startswith(RUNTIME):
        reason = f"onnxruntime's graph optimiser changes this model's answers: {reason}"
    if reason:
        entry.out("wrong", reason)


def _race(
    entries: Sequence[Entry], gate: Gate | None, measuring: float, limit: Deadline, seed: int
) -> tuple[Entry, Ratio]:
    """The winner and its speed-up over the input. One that turns out to be slower gives way to the next.

    Where the input is only right at a lower level of onnxruntime's optimiser, candidates that are right at all of them come
    first, and need not be better in another way.
    """
    original, measured = entries[0], limit.at(MEASURED)
    standing = [entry for entry in entries if entry.standing]
    if gate is not None and gate.level is not None and any(entry.level is None for entry in standing):
        standing = [entry for entry in standing if entry is original or entry.level is None]
    same = Ratio(1.0, 1.0, 1.0)
    if len(standing) > 1 and gate is not None:
        with progress.task("measuring the candidates"):
            order = timing.race(standing, gate.example, seconds=measuring, limit=measured, seed=seed)
        for entry in order:
            if entry is original:
                break
            gain = timing.confirm(entry, original, gate.example, seconds=measuring, limit=measured, seed=seed)
            if gain is None:
                entry.out("not-tried", f"{OUT_OF_TIME} before its speed was confirmed")
                continue
            entry.speedup = gain
            if gain.verdict == "slower":
                entry.out("slower", f"{gain.ratio:.2f} times as fast as the input")
            elif gain.verdict == "faster" or _is_leaner(entry, original) or entry.level != original.level:
                entry.verdict = "winner"
                return entry, gain
    original.verdict, original.speedup = "winner", same
    return original, same


def _is_leaner(entry: Entry, original: Entry) -> bool:
    """Whether something speaks for a candidate that is not faster: fewer nodes, or a file that is smaller to speak of."""
    assert entry.nodes is not None, "what stands was measured"
    assert original.nodes is not None, "what stands was measured"
    return entry.nodes < original.nodes or (entry.bytes or 0) < SMALLER * (original.bytes or 0)


def _write(
    winner: Entry, output: Path, changed: bool, source: Path, tuned: tuning.Tuned | None, options: dict[str, Any]
) -> None:
    assert winner.path is not None, "a winner has a file"
    if not changed:
        _copy(source, output)
        return
    model = Model.load(winner.path)
    if tuned is not None:
        store(model, tuned.settings)
    model.record(history.step("optimize", options=options, also=("onnxsim", "onnxslim"))).save(output)


def _copy(source: Path, output: Path) -> None:
    """The input as it is: byte by byte, unless it keeps weights in other files, which are named after the model."""
    if source.resolve() == output.resolve():
        return
    model = Model.load(source)
    if model.keeps_data_outside:
        model.save(output)
    else:
        files.copy(source, output)
