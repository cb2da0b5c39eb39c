"""How fast optimize and quantize make real models, and how right they stay, beside what other tools make of them.

    python benchmarks/fast.py                           # the section, measuring the models that were not measured yet
    python benchmarks/fast.py --model resnet20 --again  # one model
    python benchmarks/fast.py --model resnet20 --step measure --again  # only the last step; of peers, ours, measure, score

Every model is one run, in which all variants take turns; its result is kept in build/fast.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import _peers
import numpy as np
from _fast_section import BUDGET, FLOAT, OPTIMIZED, OURS, Row, section
from _subjects import MAKERS, ROOT, Subject, subjects

import sardonyx
from sardonyx.bench.interleave import Turn, measure, speedup, timed
from sardonyx.bench.process import Process
from sardonyx.bench.variants import original, torch_compile
from sardonyx.bench.variants._variant import How
from sardonyx.model import Model
from sardonyx.quantize.evaluate import Judge, Reference, is_classifier
from sardonyx.quantize.metric import chosen
from sardonyx.run.session import Session
from sardonyx.samples import Samples

KEPT = ROOT / "build" / "fast"
CALIBRATION = KEPT / "calibration.json"
OPENVINO = "OpenVINO"
IN_OPENVINO = (OPENVINO, _peers.NNCF)
EAGER, COMPILED = "PyTorch eager", "PyTorch compiled"
SECONDS, OPTIMIZE_SECONDS, QUANTIZE_SECONDS = 25.0, 40.0, 180.0
# Where a session's tensors lie in memory moves its speed by a few percent: each is opened anew so often.
OPENED = 5
FEW = 4
# What a step leaves when it is done.
RESULT = {"peers": "peers/made.json", "ours": "ours/made.json", "measure": "times.json", "score": "result.json"}
STEPS = ("peers", "ours", "measure", "score")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=list(MAKERS))
    parser.add_argument("--step", choices=STEPS, help="do only this one, and print nothing")
    parser.add_argument("--again", action="store_true", help="do what was done before once more")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--patience", type=float, default=600, help="seconds that a peer may take to make its model")
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # every library of every process then takes as many threads
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cpus])
    for name in [asked.model] if asked.model else list(MAKERS):
        for step in [asked.step] if asked.step else STEPS:
            _do(name, step, asked.again, asked.patience)
    if not asked.model and not asked.step:
        _calibrate(asked.again)
    if not asked.step:
        calibration = json.loads(CALIBRATION.read_text()) if CALIBRATION.exists() else None
        print(section([json.loads(path.read_text()) for path in _results()], calibration))


def _calibrate(again: bool) -> None:
    """The memory that calibration takes, in a process that does nothing else."""
    if again or not CALIBRATION.exists():
        script = Path(__file__).with_name("_calibration.py")
        done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=True)
        CALIBRATION.write_text(done.stdout)


def _do(name: str, step: str, again: bool, patience: float) -> None:
    folder = KEPT / name
    if again:
        _forget(folder, step)
    if (folder / RESULT[step]).exists():
        return
    [subject] = subjects([name])
    run = Run(subject, folder, patience)
    getattr(run, step)()


def _forget(folder: Path, step: str) -> None:
    path = folder / RESULT[step]
    if path.exists():
        shutil.rmtree(path.parent) if path.parent != folder else path.unlink()


class Run:
    """One model: its data in two parts, of which tools and guards see one, and every variant's figures come from the other."""

    def __init__(self, subject: Subject, folder: Path, patience: float) -> None:
        self.subject, self.folder, self.patience = subject, folder, patience
        (folder / "peers").mkdir(parents=True, exist_ok=True)
        self.model = Model.load(subject.model)
        self.given, self.held_out = folder / "given.npz", folder / "held-out.npz"
        if not self.held_out.exists():
            self._split()
        self.session = Session(subject.model)
        self.reference = self._reference(self.held_out)
        self.judge = self._judge()

    def peers(self) -> None:
        """Makes the peers' models, or learns why there is none."""
        made = {name: self._peer(name) for name in _peers.names()}
        self._write("peers", {name: {"path": str(one.path or ""), "reason": one.reason} for name, one in made.items()})

    def ours(self) -> None:
        """optimize, then quantize, with nothing but the data given and the defaults of both."""
        folder = self.folder / "ours"
        folder.mkdir(exist_ok=True)
        optimized = sardonyx.optimize(
            self.subject.model, folder / "optimized.onnx", data=self._few(), seconds=OPTIMIZE_SECONDS
        )
        print(optimized.to_text(), file=sys.stderr, flush=True)
        quantized = sardonyx.quantize(
            folder / "optimized.onnx", folder / "ours.onnx", data=self.given, budget="1%", time=QUANTIZE_SECONDS
        )
        print(quantized.to_text(), file=sys.stderr, flush=True)
        self._write("ours", {"optimize": json.loads(optimized.to_json()), "quantize": json.loads(quantized.to_json())})

    def measure(self) -> None:
        """Lets all variants take turns."""
        files, rows = self._files()
        with ExitStack() as stack:
            turns = self._turns(files, rows, stack)
            taken = []
            for _ in range(OPENED):
                taken.append(measure(turns, seconds=SECONDS / OPENED, enough=1.0).rounds)
                turns |= {
                    name: self._opened(files[name]) for name in turns if name in files and name not in IN_OPENVINO
                }
        rounds = {name: np.concatenate([part[name] for part in taken]) for name in turns}
        for name, found in rounds.items():
            rows[name]["ratio"] = speedup(rounds[FLOAT], found).to_dict()
            rows[name]["ours"] = speedup(found, rounds[OURS]).to_dict()
            rows[name]["milliseconds"] = 1000 * float(np.median(found))
        self._write("measure", rows)

    def score(self) -> None:
        """The loss of every variant on the held-out part."""
        files, _ = self._files()
        rows = self._read("measure")
        for name in files:
            if "ratio" in rows[name]:
                runner = _runner(name, files[name], self.session.output_names)
                score = self.judge.score(runner, self.reference, interval=True)
                rows[name] |= {"loss": [score.loss, score.low, score.high]}
        ours = self._read("ours")
        self._write("score", {
            "name": self.subject.name, "metric": self.judge.metric.name, "quantisable": self.subject.quantisable,
            "examples": len(self.reference.batches), "before": score.before, "rows": rows,
            "graph": ours["optimize"]["winner"], "scheme": ours["quantize"].get("candidate"),
        })  # fmt: skip

    def _write(self, step: str, what: object) -> None:
        (self.folder / RESULT[step]).write_text(json.dumps(what, indent=1))

    def _read(self, step: str) -> Any:
        return json.loads((self.folder / RESULT[step]).read_text())

    def _few(self) -> list[dict[str, Any]]:
        """A few calls as they will be measured: optimize looks at one example at a time."""
        return [batch.inputs for batch in islice(Samples.open(self.given, self.model.signature, batch=1), FEW)]

    def _split(self) -> None:
        with np.load(self.subject.data) as file:
            arrays = {name: file[name] for name in file.files}
        order = np.random.default_rng(1).permutation(len(next(iter(arrays.values()))))
        count = int(self.subject.given * len(order))
        for path, chosen_rows in ((self.given, order[:count]), (self.held_out, order[count:])):
            np.savez(path, **{name: array[chosen_rows] for name, array in arrays.items()})

    def _reference(self, data: Path) -> Reference:
        return Reference.of(self.session, Samples.open(data, self.model.signature, batch=1))

    def _judge(self) -> Judge:
        labelled = self.reference.batches[0].label is not None
        classifier = is_classifier(self.model, self.reference.outputs[0])
        return Judge(chosen("auto", labelled=labelled, classifier=classifier, integer_labels=True), BUDGET)

    def _peer(self, name: str) -> _peers.Made:
        expected = self.folder / "expected.npz"
        if name == _peers.NNCF and not expected.exists():
            outputs = self._reference(self.given).outputs
            first = next(key for key, value in outputs[0].items() if value.dtype.kind == "f")
            np.savez(expected, truth=np.concatenate([item[first] for item in outputs[len(outputs) // 2 :]]))
        metric, folder = self.judge.metric.name, self.folder / "peers"
        return _peers.make(name, self.subject.model, self.given, expected, metric, folder, self.patience)

    def _files(self) -> tuple[dict[str, Path], dict[str, Row]]:
        """The variants that are files, and a row for every variant."""
        files: dict[str, Path] = {FLOAT: self.subject.model}
        rows: dict[str, Row] = {FLOAT: {}}
        for name, made in self._read("peers").items():
            rows[name] = {"reason": made["reason"]} if made["reason"] else {}
            if made["path"]:
                files[name] = Path(made["path"])
        folder = self.folder / "ours"
        files |= {OPENVINO: self.subject.model, OPTIMIZED: folder / "optimized.onnx", OURS: folder / "ours.onnx"}
        return files, rows | {name: {} for name in (OPENVINO, EAGER, COMPILED, OPTIMIZED, OURS)}

    def _turns(self, files: dict[str, Path], rows: dict[str, Row], stack: ExitStack) -> dict[str, Turn]:
        feed = self.reference.batches[0].inputs
        turns: dict[str, Turn] = {}
        for name in rows:
            try:
                if name in (EAGER, COMPILED):
                    turn = self._pytorch(name, feed, stack)
                elif name in IN_OPENVINO and name in files:
                    request = {"path": str(files[name]), "threads": len(os.sched_getaffinity(0))}
                    turn = stack.enter_context(Process("openvino", request, threads=None, timeout=300)).prepare(feed)
                elif name in files:
                    turn = self._opened(files[name])
                else:
                    continue
                turn(1)
            except Exception as error:  # noqa: BLE001  what fails is that variant's result
                rows[name]["reason"] = str(error).splitlines()[0][:160]
                files.pop(name, None)
            else:
                turns[name] = turn
        return turns

    def _opened(self, path: Path) -> Turn:
        session, feed = Session(path), self.reference.batches[0].inputs
        return timed(lambda: session.run_fitted(feed))

    def _pytorch(self, name: str, feed: dict[str, Any], stack: ExitStack) -> Turn:
        if self.subject.original is None:
            raise RuntimeError("not a PyTorch model")
        way = original if name == EAGER else torch_compile
        how = How(threads=len(os.sched_getaffinity(0)), weights=self.subject.weights)
        return stack.enter_context(way.opened(self.subject.original, how)).prepare(feed)


def _runner(name: str, path: Path, outputs: Sequence[str]) -> Any:
    return OpenVino(path, outputs) if name in IN_OPENVINO else Session(path)


class OpenVino:
    """A model in OpenVINO that answers as a session does."""

    def __init__(self, path: Path, outputs: Sequence[str]) -> None:
        import openvino

        self._model = openvino.Core().compile_model(path, "CPU", {"PERFORMANCE_HINT": "LATENCY"})
        self._outputs = outputs

    def run_fitted(self, inputs: dict[str, Any]) -> dict[str, Any]:
        found = self._model(inputs)
        return {name: found[index] for index, name in enumerate(self._outputs)}


def _results() -> Iterator[Path]:
    return (path for name in MAKERS if (path := KEPT / name / "result.json").exists())


if __name__ == "__main__":
    main()
