"""Files are cut into parts only where that leaves the answers as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serving
from sardonyx.errors import BadData
from sardonyx.model import Model
from sardonyx.run import parts
from sardonyx.run.parts import Part, cut_files, open_inputs, rows_of
from sardonyx.run.session import Session


def session(tmp_path: Path, name: str) -> Session:
    return Session(serving.save(name, tmp_path / f"{name}.onnx"))


def rows(count: int, width: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(count, width)).astype(np.float32)


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_rows_that_keep_apart_are_cut_and_come_back_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 4)
    model = session(tmp_path, "tiny")
    x = rows(10, 4)
    path = saved(tmp_path / "x.npz", x=x, label=np.zeros(10))
    found, cut = cut_files(model, [path])
    assert cut
    assert [(part.start, part.stop) for part in found] == [(0, 4), (4, 8), (8, 10)]
    opened = open_inputs(path, model.signature)
    answers = [model(rows_of(opened, part.start, part.stop))["y"] for part in found]
    np.testing.assert_array_equal(np.concatenate(answers), model({"x": x})["y"])


def test_rows_that_change_each_other_are_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 4)
    path = saved(tmp_path / "x.npz", x=rows(10, 2))
    assert cut_files(session(tmp_path, "mixing"), [path]) == ([Part(0, str(path), 0, -1)], False)


@pytest.mark.parametrize(("share", "cut"), [("0.0000002", True), ("0.0005", False)])
def test_rounding_between_rows_does_not_keep_a_file_whole_and_anything_more_does(
    tmp_path: Path, share: str, cut: bool
) -> None:
    model = Session(Model.from_text(serving.HEAD + serving.mixing_by(share)))
    assert cut_files(model, [saved(tmp_path / "x.npz", x=rows(10, 2) + 3)])[1] is cut


def test_one_file_that_mixes_leaves_all_of_them_whole(tmp_path: Path) -> None:
    files = [saved(tmp_path / f"{count}.npz", x=rows(count, 2)) for count in (1, 9)]
    found, cut = cut_files(session(tmp_path, "mixing"), files)
    assert not cut
    assert [(part.file, part.stop) for part in found] == [(0, -1), (1, -1)]


def test_a_model_of_fixed_size_gets_parts_of_that_size(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npz", x=rows(3, 2))
    found, cut = cut_files(session(tmp_path, "fixed"), [path])
    assert cut
    assert [(part.start, part.stop) for part in found] == [(0, 1), (1, 2), (2, 3)]


def test_examples_that_a_fixed_size_does_not_divide_are_named(tmp_path: Path) -> None:
    model = Session(Model.from_text(serving.HEAD + "(float[2,2] x) => (float[2,2] y) { y = Relu(x) }"))
    with pytest.raises(BadData, match="holds 3 examples, and the model takes 2 at a time"):
        cut_files(model, [saved(tmp_path / "x.npz", x=rows(3, 2))])


def test_a_nameless_array_is_the_only_input(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", rows(3, 4))
    found, _ = cut_files(session(tmp_path, "tiny"), [tmp_path / "x.npy"])
    assert [(part.start, part.stop) for part in found] == [(0, 3)]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"z": rows(3, 4)}, "no such input"),
        ({"x": rows(3, 5)}, "shape"),
        ({"x": np.array([["a"] * 4])}, "x: "),
    ],
)
def test_a_file_that_does_not_fit_is_named_before_anything_runs(tmp_path: Path, arrays: Any, words: str) -> None:
    with pytest.raises(BadData, match=words):
        cut_files(session(tmp_path, "tiny"), [saved(tmp_path / "x.npz", **arrays)])


def test_inputs_of_different_lengths_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npz", a=rows(3, 2), b=np.zeros((4, 2), np.int64))
    with pytest.raises(BadData, match="the lengths differ: a has 3 examples, b has 4 examples"):
        cut_files(session(tmp_path, "pair"), [path])
