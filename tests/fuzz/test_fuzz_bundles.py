"""Bundles of a stranger: records, reports and files of any form, given to verify, to a ship over them, and to package."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sardonyx
from bundling import by_hand, resealed
from mutating import NAMES, changed, damaged, disturb, watched
from sardonyx import golden, history
from sardonyx.below import Folder
from sardonyx.bundle.claims import claims
from sardonyx.bundle.contents import Tampered, canonical, digest, read_record
from sardonyx.bundle.page import render
from sardonyx.bundle.stages import STAGES, machine_now
from sardonyx.bundle.work import Done, at_work
from sardonyx.errors import InputError
from sardonyx.files import sha256
from sardonyx.package._subject import Subject
from sardonyx.report import Finding, Report, Table
from soak import amount

pytestmark = pytest.mark.heavy


def told(folder: Path) -> Path:
    """A bundle with a report of every stage, each of which has written a file that is there."""
    by_hand(folder)
    cases = {"golden.safetensors": sha256(folder / "golden.safetensors")}
    model = {"model.onnx": sha256(folder / "model.onnx")}
    table, finding = Table("t", ("a", "b"), ((1, "x"),)), Finding("info", "code", "where", "message", "hint")
    fields = {"reason": "", "ledger": {}}
    stages = [
        Done(
            stage.name, f"key of {stage.name}", Report(stage.name, "good", True, fields, (finding,), (table,)), 1.0,
            {"source": "hash"}, {"seed": 0}, {"onnx": "1"}, cases if stage.name == "golden" else model,
        )
        for stage in STAGES
    ]  # fmt: skip
    report = {
        "stages": [done.told() for done in stages],
        "ledger": {"nodes": []},
        "verdict": "shipped",
        "source": "net.py",
    }
    (folder / "report.json").write_text(json.dumps(report))
    record = read_record(folder)
    record["provenance"] = [done.provenance() for done in stages]
    record["metrics"] = {"speed": {"ratio": 2.0, "low": 1.5, "high": 3.0, "verdict": "faster"}}
    record["files"]["report.json"], record["sizes"]["report.json"] = "", 0
    record["digest"] = digest(record)
    (folder / "bundle.json").write_text(canonical(record))
    resealed(folder)
    return folder


def other_record(chance: random.Random, folder: Path, _: Path) -> str:
    """Sealed as if it had always been so."""
    record = changed(chance, read_record(folder))
    if isinstance(record, dict):
        record["digest"] = digest(record)
    (folder / "bundle.json").write_text(canonical(record))
    return f"record {str(record)[:3000]}"


def other_outputs(chance: random.Random, folder: Path, _: Path) -> str:
    record = read_record(folder)
    stage = chance.choice(record["provenance"])
    name = chance.choice(NAMES)
    stage["outputs"][name] = chance.choice(list(record["files"].values()))
    record["digest"] = digest(record)
    (folder / "bundle.json").write_text(canonical(record))
    return f"outputs {name!r}"


def other_report(chance: random.Random, folder: Path, _: Path) -> str:
    report = changed(chance, json.loads((folder / "report.json").read_text()))
    (folder / "report.json").write_text(json.dumps(report))
    resealed(folder)
    return f"report {str(report)[:3000]}"


def other_bytes(chance: random.Random, folder: Path, _: Path) -> str:
    path = chance.choice(sorted(folder.iterdir()))
    path.write_bytes(damaged(chance, path.read_bytes(), head=3000))
    return f"bytes of {path.name}"


CHANGES: list[Callable[[random.Random, Path, Path], str]] = [
    other_record, other_record, other_outputs, other_report, other_bytes, disturb,
]  # fmt: skip


def verify(folder: Path) -> None:
    """All of verify but the replay, which is a process of its own and has its own doors."""
    try:
        record = read_record(folder)
    except Tampered:
        return
    claims(record, history.versions(), machine_now())
    record["files"].pop("golden.safetensors", None)
    record["sizes"].pop("golden.safetensors", None)
    (folder / "golden.safetensors").unlink(missing_ok=True) if (folder / "golden.safetensors").is_file() else None
    record["digest"] = digest(record)
    (folder / "bundle.json").unlink()
    (folder / "bundle.json").write_text(canonical(record))
    sardonyx.verify(folder).to_text()


def ship(folder: Path) -> None:
    """What a ship reads back: every stage whose key the stranger knew, and the page of what it told."""
    with at_work(folder) as work:
        for stage in STAGES:
            done = work.take(stage.name, f"key of {stage.name}")
            if done is not None:
                done.report.to_text()
        assert {path.name for path in work.made.iterdir()} <= {"model.onnx", "golden.safetensors"}
        work.forget()


def page(folder: Path) -> None:
    """A page of the report, whatever it holds, is a page without a script of theirs."""
    try:
        with Folder(folder) as bundle:
            report = json.loads(bundle.read("report.json", at_most=1 << 20))
    except (ValueError, RecursionError):
        return
    if isinstance(report, dict):
        assert "<script>alert" not in render(report)


def package(folder: Path) -> None:
    shutil.rmtree(folder.parent / "package", ignore_errors=True)
    Subject(folder).write(folder.parent / "package")


DOORS: dict[str, Callable[[Path], Any]] = {"verify": verify, "ship": ship, "package": package, "page": page}


@pytest.mark.rest
@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("door", DOORS)
def test_a_bundle_of_a_stranger_is_taken_or_named(tmp_path: Path, door: str) -> None:
    made, folder, chance = told(tmp_path / "made"), tmp_path / "bundle", random.Random(f"bundle {door}")
    with watched(tmp_path / "outside") as watch:
        for number in range(amount(200, 100_000)):
            shutil.copytree(made, folder)
            said = chance.choice(CHANGES)(chance, folder, tmp_path / "outside")
            watch.meet((number, said), lambda: DOORS[door](folder))
            shutil.rmtree(folder)
    assert {path.name for path in tmp_path.iterdir()} <= {"made", "outside", "twin", "package"}
    assert watch.ends["ok"] > 0


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_golden_cases_of_a_stranger_are_read_or_named(tmp_path: Path) -> None:
    """Read in this process, as package reads them, and judged by answers that are what the model gives."""
    made, path, chance = by_hand(tmp_path / "made"), tmp_path / "golden.safetensors", random.Random("golden")
    data = (made / "golden.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    whole = json.loads(data[8 : 8 + size])

    def read() -> None:
        found = golden.load(path)
        for index in range(len(found.cases)):
            found.judge(index, {"y": np.zeros((4, 4), np.float32)})

    with watched(tmp_path / "outside") as watch:
        for number in range(amount(300, 100_000)):
            header = json.loads(json.dumps(whole))
            words = header["__metadata__"][golden.META]
            if chance.random() < 0.7:
                header["__metadata__"][golden.META] = json.dumps(changed(chance, json.loads(words)))
            else:
                header = changed(chance, header)
            text = json.dumps(header).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
            watch.meet((number, text[:3000]), read)
    assert watch.ends["ok"]
    assert watch.ends["broken-model"]


@pytest.mark.rest
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_golden_cases_of_a_stranger_are_replayed_or_named(tmp_path: Path) -> None:
    """With the replay, a process each: golden cases of any bytes, and a record that names them so."""
    made, chance = by_hand(tmp_path / "made"), random.Random("golden")
    seen = set()
    for _ in range(amount(3, 300)):
        folder = Path(shutil.copytree(made, tmp_path / "bundle"))
        path = folder / "golden.safetensors"
        path.write_bytes(damaged(chance, path.read_bytes(), head=1500))
        resealed(folder)
        seen.add(sardonyx.verify(folder).verdict)
        shutil.rmtree(folder)
    assert seen <= {"verified", "changed"}


def test_the_reader_of_a_ship_takes_what_is_sound(tmp_path: Path) -> None:
    folder = told(tmp_path / "bundle")
    with at_work(folder) as work:
        for stage in STAGES:
            assert work.take(stage.name, f"key of {stage.name}") is not None
            assert work.take(stage.name, "another key") is None
        work.forget()
        assert work.take("golden", "key of golden") is None
    with pytest.raises(InputError):
        Subject(tmp_path / "bundle" / "model.onnx" / "none")
