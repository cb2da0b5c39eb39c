"""Bad input and a full disk: an error that names it, and the last good checkpoint as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sardonyx
from sardonyx import training
from sardonyx.errors import BadData, InputError, NotFound, SardonyxError
from sardonyx.files import sha256
from sardonyx.model import Model
from sardonyx.training.api import CheckpointState, Module

HEAD = '<ir_version: 10, opset_import: ["": 20]> g (float[n,4] x) => (float[n,3] y)'
TEXT = f"{HEAD} <float[4,3] NAME = {{{','.join(['0.1'] * 12)}}}> {{ y = MatMul(x, NAME) }}"


def rows(count: int = 40) -> dict[str, Any]:
    random = np.random.default_rng(0)
    return {"x": random.normal(size=(count, 4)).astype(np.float32), "label": random.integers(0, 3, count)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that has been trained for an epoch."""
    training.prepare(Model.from_text(TEXT.replace("NAME", "w")), tmp_path / "run")
    sardonyx.train(tmp_path / "run", data=rows(), batch_size=8)
    return tmp_path / "run"


def _nan(data: dict[str, Any]) -> None:
    data["x"][17, 1] = np.nan


def _infinite(data: dict[str, Any]) -> None:
    data["x"][3] = np.inf


def _class(number: int) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data["label"][5] = number

    return change


def _set(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.__setitem__(name, value)


CASES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a label too large": (_class(3), "class 3, and the model has the classes 0 to 2"),
    "a label below zero": (_class(-1), "class -1"),
    "labels that are no whole numbers": (_set("label", np.full(40, 0.5)), "class numbers are whole"),
    "labels of which one is NaN": (_set("label", np.array([np.nan] + [1.0] * 39)), "class numbers are whole"),
    "labels that are words": (_set("label", np.array(["cat"] * 40)), "no numbers"),
    "too few labels": (_set("label", np.zeros(39, np.int64)), "label"),
    "NaN": (_nan, "x holds NaN or infinity, first in example"),
    "infinity": (_infinite, "x holds NaN or infinity"),
    "inputs that are words": (_set("x", np.array([["a"] * 4] * 40)), "x"),
    "complex inputs": (_set("x", np.ones((40, 4), np.complex64)), "x"),
    "inputs of another width": (_set("x", np.ones((40, 5), np.float32)), "x"),
    "inputs of another rank": (_set("x", np.ones(40, np.float32)), "x"),
    "no inputs": (lambda data: data.pop("x"), "x"),
    "no labels": (lambda data: data.pop("label"), "no labels"),
    "no examples": (lambda data: data.update(rows(0)), "no|empty|0"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_data_is_named_and_the_checkpoints_stay(folder: Path, case: str) -> None:
    spoil, words = CASES[case]
    before = {name: sha256(folder / name) for name in ("last", "best", "checkpoint")}
    data = rows()
    spoil(data)
    with pytest.raises(SardonyxError, match=words) as caught:
        sardonyx.train(folder, data=data, epochs=2, resume=True)
    assert isinstance(caught.value, BadData | InputError)
    assert caught.value.hint
    assert {name: sha256(folder / name) for name in before} == before
    assert sardonyx.train(folder, data=rows(), epochs=2, resume=True)["epochs"] == 2


@pytest.mark.parametrize("case", [name for name in CASES if name not in ("no examples", "NaN", "infinity")])
def test_a_stream_is_looked_at_as_closely(folder: Path, case: str) -> None:
    data = rows()
    CASES[case][0](data)
    with pytest.raises(SardonyxError):
        sardonyx.train(folder, data=lambda: iter([data]), epochs=2, resume=True)


def test_a_checkpoint_of_another_model_is_refused_by_every_verb(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    training.prepare(Model.from_text(TEXT.replace("NAME", "u")), other)
    sardonyx.train(other, data=rows())
    shutil.copy(other / "last", folder / "last")
    kept = sha256(folder / "last")
    for call in (
        lambda: sardonyx.train(folder, data=rows(), epochs=2, resume=True),
        lambda: training.evaluate(folder, data=rows()),
        lambda: training.export(folder, tmp_path / "m.onnx", checkpoint="last"),
    ):
        with pytest.raises(InputError, match="belongs to another model: it has no 'w'"):
            call()
    assert sha256(folder / "last") == kept
    assert not (tmp_path / "m.onnx").exists()


def test_a_checkpoint_of_the_same_names_and_other_shapes_is_refused(folder: Path, tmp_path: Path) -> None:
    wider = (
        TEXT.replace("[4,3]", "[4,2]").replace("[n,3]", "[n,2]").replace(",".join(["0.1"] * 12), ",".join(["0.1"] * 8))
    )
    training.prepare(Model.from_text(wider.replace("NAME", "w")), tmp_path / "other")
    state = CheckpointState.load_checkpoint(tmp_path / "other" / "checkpoint")
    with pytest.raises(InputError, match=r"its 'w' is float32\[4, 2\], not float32\[4, 3\]"):
        Module(folder / "training_model.onnx", state)


@pytest.mark.parametrize("size", [0, 7, 60, -10])
def test_a_checkpoint_that_was_cut_off_is_named(folder: Path, size: int) -> None:
    content = (folder / "last").read_bytes()
    (folder / "last").write_bytes(content[:size])
    with pytest.raises(InputError, match="last cannot be read") as caught:
        sardonyx.train(folder, data=rows(), epochs=2, resume=True)
    assert "earlier checkpoint" in caught.value.hint


def test_resuming_what_was_never_begun_is_named(tmp_path: Path) -> None:
    training.prepare(Model.from_text(TEXT.replace("NAME", "w")), tmp_path / "run")
    with pytest.raises(NotFound, match="no checkpoint 'last'"):
        sardonyx.train(tmp_path / "run", data=rows(), resume=True)


# A file system of its own, as small as a run and a little more: $1 is where it is mounted, $2 Python, $3 the folder, $4 the data.
FULL_DISK = """
set -e
mount -t tmpfs -o size=400k none "$1"
cp -r "$3" "$1/run"
sha256sum < "$1/run/last" > "$4/before"
dd if=/dev/zero of="$1/filler" bs=1k count=4000 2> /dev/null || true
set +e
"$2" -m sardonyx train run "$1/run" --data "$4/data.npz" --epochs 2 --resume > "$4/said" 2>&1
echo $? > "$4/code"
sha256sum < "$1/run/last" > "$4/after"
ls -A "$1/run" > "$4/files"
rm "$1/filler"
"$2" -m sardonyx train run "$1/run" --data "$4/data.npz" --epochs 2 --resume > /dev/null 2>&1
echo $? > "$4/again"
"""


@pytest.mark.rest
@pytest.mark.heavy
def test_a_disk_that_is_really_full_leaves_the_last_checkpoint(folder: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **rows())
    (tmp_path / "small").mkdir()
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", FULL_DISK, "sh"]
    subprocess.run(
        [*words, str(tmp_path / "small"), sys.executable, str(folder), str(tmp_path)], check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    found = {name: (tmp_path / name).read_text() for name in ("before", "after", "said", "code", "files", "again")}
    assert found["code"].strip() == "2"
    assert "No space left on device" in found["said"]
    assert "hint:" in found["said"]
    assert "Traceback" not in found["said"]
    assert found["before"] == found["after"]
    assert ".part" not in found["files"]
    assert found["again"].strip() == "0"
