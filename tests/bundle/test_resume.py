"""A stage that was given the same is not run again, and nothing that interrupts a ship leaves half a bundle."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sardonyx
from bundling import QUICK, SKIP, kill_ships, must_verify, network, write_inputs
from sardonyx import history
from sardonyx.bundle import stages
from sardonyx.errors import OutputError
from sardonyx.report import Report
from soak import LONG, amount

pytestmark = pytest.mark.heavy
ALL = ["convert", "check", "compare", "optimize", "quantize", "bench", "golden"]


def shipped(folder: Path, **changes: Any) -> Report:
    settings = {**QUICK, **changes.pop("settings", {})}
    return sardonyx.ship(
        folder / "net.onnx", folder / "bundle", data=folder / "rows.npz", settings=settings, skip=SKIP, **changes
    )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    write_inputs(folder)
    report = shipped(folder)
    assert (report.verdict, report["resumed"]) == ("shipped", [])
    return folder


@pytest.fixture
def folder(first: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(first, tmp_path / "again"))


@pytest.mark.rest
def test_nothing_changed_means_nothing_is_run_again(folder: Path) -> None:
    before = (folder / "bundle" / "report.json").read_text()
    report = shipped(folder)
    assert report["resumed"] == ALL
    assert [row[2] for row in report.tables[0].rows] == ["as before"] * 7
    must_verify(folder / "bundle")
    assert '"ledger"' in before


@pytest.mark.rest
def test_a_changed_option_runs_its_stage_again_and_what_depends_on_it(folder: Path) -> None:
    report = shipped(folder, settings={"bench": {"seconds": 0.03, "cold": False}})
    assert report["resumed"] == [name for name in ALL if name != "bench"]
    report = shipped(folder, settings={"bench": {"seconds": 0.03, "cold": False}, "golden": {"cases": 1}})
    assert report["resumed"] == ALL[:-1]
    assert len(sardonyx.verify(folder / "bundle")["cases"]) == 1


def taken(folder: Path) -> list[str]:
    """The stages that a ship would take over before the first that it would run."""
    from sardonyx.bundle.settings import Settings
    from sardonyx.bundle.work import at_work

    found = []
    with at_work(folder / "bundle") as work:
        job = stages.Job(folder / "net.onnx", work.made, folder / "rows.npz", Settings(QUICK, SKIP))
        for stage in stages.STAGES:
            if work.take(stage.name, stage.key(job, stage.inputs(job))) is None:
                break
            found.append(stage.name)
    return found


def test_changed_data_runs_what_reads_it(folder: Path) -> None:
    assert taken(folder) == ALL
    np.savez(folder / "rows.npz", x=np.ones((32, 8), np.float32), label=np.zeros(32, np.int64))
    assert taken(folder) == []  # the first stage, convert, probes with it


def test_a_changed_source_runs_everything(folder: Path) -> None:
    network(seed=7).save(folder / "net.onnx")
    assert taken(folder) == []


def test_another_library_runs_everything(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = history.installed_version
    monkeypatch.setattr(history, "installed_version", lambda name: "9.9" if name == "onnxscript" else real(name))
    assert taken(folder) == []


def test_another_machine_measures_again_and_converts_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "machine_now", lambda: {"cpu": "Abacus", "features": {}, "threads": 1})
    report = shipped(folder)
    assert report["resumed"] == ["convert", "check", "compare", "golden"]


def test_a_damaged_bundle_gives_nothing(folder: Path) -> None:
    whole = (folder / "bundle" / "float.onnx").read_bytes()
    for name in ("float.onnx", "model.onnx"):  # the same model, so that either could stand in for the other
        assert taken(folder) == ALL
        (folder / "bundle" / name).write_bytes(whole[:-1] + b"\0")
    assert taken(folder) == []


def interrupted(_: stages.Job) -> Report:
    raise KeyboardInterrupt


@pytest.mark.rest
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_inputs(tmp_path)
    with monkeypatch.context() as patched:
        broken = tuple(
            stages.Stage(s.name, interrupted, s.reads, s.measures, s.libraries) if s.name == "bench" else s
            for s in stages.STAGES
        )
        patched.setattr("sardonyx.bundle.shipping.STAGES", broken)
        with pytest.raises(KeyboardInterrupt):
            shipped(tmp_path)
    assert not (tmp_path / "bundle").exists()
    assert (tmp_path / "bundle.unfinished").is_dir()
    assert shipped(tmp_path)["resumed"] == ALL[:5]
    assert not (tmp_path / "bundle.unfinished").exists()


@pytest.mark.parametrize("moment", ["between the renames", "after the renames"])
def test_a_kill_between_the_last_renames_is_put_right(folder: Path, moment: str) -> None:
    work = folder / "bundle.unfinished"
    (work / "stages").mkdir(parents=True)
    shutil.copytree(folder / "bundle", work / "old")
    if moment == "between the renames":
        (folder / "bundle").rename(work / "bundle")
    assert shipped(folder)["resumed"] == ALL
    must_verify(folder / "bundle")
    assert not work.exists()


def test_two_ships_at_once_do_not_meet(folder: Path) -> None:
    from sardonyx.bundle.work import at_work

    with at_work(folder / "bundle"), pytest.raises(OutputError, match="another process"):
        shipped(folder)


def test_a_work_folder_that_is_somebody_elses_is_left_alone(folder: Path) -> None:
    (folder / "bundle.unfinished").mkdir()
    (folder / "bundle.unfinished" / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="in the way"):
        shipped(folder)
    assert (folder / "bundle.unfinished" / "thesis.txt").read_text() == "years of work"


@pytest.mark.rest
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_ship_that_is_killed_leaves_a_whole_bundle_or_one_to_resume(tmp_path: Path) -> None:
    kills = amount(4, 50)
    assert kill_ships(tmp_path, kills, span=25 if LONG else 6, skip=() if LONG else SKIP)["killed"] == kills
