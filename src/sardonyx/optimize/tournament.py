"""Every way to a better graph is tried; what still gives the same answers is measured, and the best is kept."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sardonyx import files, history, progress
from sardonyx.bench.ratio import Ratio
from sardonyx.errors import SardonyxError, UsageError
from sardonyx.model import Model
from sardonyx.optimize import shapes as sizes
from sardonyx.optimize import timing, tuning
from sardonyx.optimize.candidates._form import Way, ways
from sardonyx.optimize.entry import INPUT, Entry, make
from sardonyx.optimize.gate import Gate
from sardonyx.optimize.telling import tell
from sardonyx.report import Report
from sardonyx.run.session import store, store_level, stored_level

LEVELS = ("portable", "machine")
# Optimisers at work beside each other; nothing is timed meanwhile.
AT_ONCE = 2
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
    seconds: float,
    seed: int,
) -> Report:
    """The tournament's report. The winner, or the input as it is, lies at `output`."""
    _check(level, seconds)
    files.must_be_writable(output)
    with tempfile.TemporaryDirectory(prefix="sardonyx-") as scratch:
        source = _on_disk(model, Path(scratch))
        base = _specialised(source, shapes, Path(scratch))
        gate = Gate(source, Model.load(base).signature, data, seed)
        original = Entry(INPUT, path=_safe(base, gate, Path(scratch)), level=gate.level).measured_file()
        entries = [original, *_judged(base, Path(scratch), level, gate)]
        winner, gain = _race(entries, gate, seconds, seed)
        assert winner.path is not None, "a winner has a file"
        tuned = tuning.tune(winner.path, gate, seconds=seconds, seed=seed) if tune else None
        changed = winner.path != source or (tuned is not None and bool(tuned.settings.tuned))
        _write(winner, output, changed, source, tuned, {"level": level, "shapes": dict(shapes), "winner": winner.name})
        return tell(
            output, winner, entries, gain, tuned, before=original, explain=explain, level=level, doubt=gate.doubt
        )


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


def _safe(path: Path, gate: Gate, scratch: Path | None = None) -> Path:
    """The model, with the level written into it at which onnxruntime answers right, where it does not by default."""
    if gate.level is None:
        return path
    model = Model.load(path)
    store_level(model, gate.level)
    return model.save((scratch or path.parent) / f"safe_{path.name}")


def _judged(base: Path, scratch: Path, level: str, gate: Gate) -> list[Entry]:
    """All candidates, and in the place of one that is out the one that can stand for it."""
    chosen = ways(level)
    entries = _made([way for way in chosen if way.instead_of is None], base, scratch, level)
    _judge(entries, gate)
    out = {entry.name for entry in entries if not entry.standing}
    others = _made([way for way in chosen if way.instead_of in out], base, scratch, level)
    _judge(others, gate)
    return entries + others


def _made(chosen: Sequence[Way], base: Path, scratch: Path, level: str) -> list[Entry]:
    """Candidates, made beside each other where they run in processes of their own."""
    with progress.task("optimize", total=len(chosen)) as advance, ThreadPoolExecutor(AT_ONCE) as pool:
        outside = {way.name: pool.submit(make, way, base, scratch, level) for way in chosen if way.in_child}
        entries = []
        for way in chosen:
            waiting = outside.get(way.name)
            entries.append(make(way, base, scratch, level) if waiting is None else waiting.result())
            advance(text=f"optimize: {way.name}")
    return entries


def _judge(entries: Sequence[Entry], gate: Gate) -> None:
    """Puts out what does not load, and what does not give the same answers."""
    for entry in entries:
        if entry.path is None or not entry.standing:
            continue
        try:
            judgement, reason = gate.judge(entry.path)
            if reason and gate.level is not None:
                entry.level, entry.path = gate.level, _safe(entry.path, gate)
                judgement, reason = gate.judge(entry.path)
                entry.reason = f"right only at onnxruntime's optimisation level '{gate.level}', which it says"
        except SardonyxError as error:
            entry.out("refused", error.message)
            continue
        entry.max_error = max((output.max_abs or 0.0 for output in judgement.outputs), default=0.0)
        if reason and gate.doubt is not None and entry.name.startswith(RUNTIME):
            reason = f"onnxruntime's graph optimiser changes this model's answers: {reason}"
        if reason:
            entry.out("wrong", reason)


def _race(entries: Sequence[Entry], gate: Gate, seconds: float, seed: int) -> tuple[Entry, Ratio]:
    """The winner and its speed-up over the input. One that turns out to be slower gives way to the next.

    Where the input is only right at a lower level of onnxruntime's optimiser, candidates that are right at all of them come
    first, and need not be better in another way.
    """
    original = entries[0]
    standing = [entry for entry in entries if entry.standing]
    if gate.level is not None and any(entry.level is None for entry in standing):
        standing = [entry for entry in standing if entry is original or entry.level is None]
    same = Ratio(1.0, 1.0, 1.0)
    if len(standing) > 1:
        with progress.task("measuring the candidates"):
            order = timing.race(standing, gate.example, seconds=seconds, seed=seed)
        for entry in order:
            if entry is original:
                break
            gain = timing.confirm(entry, original, gate.example, seconds=seconds, seed=seed)
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
