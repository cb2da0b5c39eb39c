"""Files scored on a Ray cluster get the answers that `sardonyx.run` gives on one machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import real
import sardonyx
import serving
from sardonyx import registry
from sardonyx.errors import BadData, NotFound, OutputError, RuntimeRefused, SardonyxError, UsageError
from sardonyx.model import Model
from sardonyx.run.parts import cut_files
from sardonyx.run.ray_score import Scorer, unpacked
from sardonyx.run.session import Session, Settings

SCRIPT = """
import json, os, sys
os.environ.update(RAY_USAGE_STATS_ENABLED="0", ORT_DISABLE_TELEMETRY="1")
import sardonyx
from sardonyx.errors import SardonyxError
from sardonyx.run.ray_cluster import cluster

answers = []
with cluster(2) as ray:
    for words in json.loads(sys.argv[1]):
        try:
            report = sardonyx.run(words["model"], data=words["data"], output=words["output"], engine="ray")
            answers.append(report.to_dict())
        except SardonyxError as error:
            answers.append(error.to_dict())
    assert ray.is_initialized()
assert not ray.is_initialized()
print("\\n" + json.dumps(answers))
"""


def scored(*calls: dict[str, Path]) -> list[dict[str, Any]]:
    """What `sardonyx.run` on Ray says to each call, all on one cluster of two CPUs that is started and ended here."""
    words = json.dumps([{name: str(path) for name, path in call.items()} for call in calls])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, words],
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}


@pytest.mark.heavy
@pytest.mark.rest
def test_files_scored_on_ray_have_the_answers_of_one_machine(tmp_path: Path) -> None:
    if not registry.installed("ray"):
        pytest.skip("ray is not installed; `make test` installs it")
    draw = np.random.default_rng(0)
    tiny = serving.save("tiny", tmp_path / "tiny.onnx")
    magika = real.path("magika/models/standard_v3_3/model.onnx")
    folder = tmp_path / "files"
    folder.mkdir()
    np.savez(folder / "a.npz", x=draw.normal(size=(700, 4)).astype(np.float32), label=np.zeros(700))
    np.save(folder / "b.npy", draw.normal(size=(5, 4)).astype(np.float32))
    save_file({"x": draw.normal(size=(257, 4)).astype(np.float32)}, folder / "c.safetensors")
    (folder / "notes.txt").write_text("left alone")
    (name,) = Model.load(magika).signature.input_names
    np.savez(tmp_path / "bytes.npz", **{name: draw.integers(0, 256, (300, 2048)).astype(np.int32)})
    many, one = scored(
        {"model": tiny, "data": folder, "output": tmp_path / "answers"},
        {"model": magika, "data": tmp_path / "bytes.npz", "output": tmp_path / "kinds.npz"},
    )
    assert (many["verdict"], many["engine"], many["parts"]) == ("ok", "ray", 3 + 1 + 2)
    assert sorted(path.name for path in (tmp_path / "answers").iterdir()) == ["a.npz", "b.npz", "c.npz"]
    for source in ("a.npz", "b.npy", "c.safetensors"):
        same(tiny, folder / source, tmp_path / "answers" / f"{source[0]}.npz", exact=True)
    assert one["parts"] == 2
    same(magika, tmp_path / "bytes.npz", tmp_path / "kinds.npz", exact=False)


def same(model: Path, data: Path, answers: Path, *, exact: bool) -> None:
    """Bit for bit; or, for a model whose kernels add up in another order for another number of rows, to float32's digits."""
    expected = sardonyx.run(model, data=data).artifacts["outputs"]
    with np.load(answers) as found:
        assert set(found) == set(expected)
        for name, value in expected.items():
            if exact:
                np.testing.assert_array_equal(found[name], value)
            else:
                np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6)


def answers(model: Path, data: Path) -> Iterator[tuple[int, Any]]:
    """What a worker answers for all parts of a file, without the cluster around it."""
    session = Session(model)
    parts, _ = cut_files(session, [data])
    batch = {name: np.array([getattr(part, name) for part in parts]) for name in ("file", "path", "start", "stop")}
    found = Scorer(str(model), Settings(threads=1), session.signature)(batch)
    return zip(found["file"], map(unpacked, found["answer"]), strict=True)


def test_a_worker_answers_for_every_part_in_order(tmp_path: Path) -> None:
    model = serving.save("tiny", tmp_path / "tiny.onnx")
    x = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    found = list(answers(model, tmp_path / "x.npz"))
    assert [(file, len(answer["y"])) for file, answer in found] == [(0, 256), (0, 256), (0, 88)]
    np.testing.assert_array_equal(np.concatenate([answer["y"] for _, answer in found]), Session(model)({"x": x})["y"])


def test_a_worker_answers_at_once_for_rows_that_change_each_other(tmp_path: Path) -> None:
    model = serving.save("mixing", tmp_path / "mixing.onnx")
    x = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    ((_, answer),) = answers(model, tmp_path / "x.npz")
    np.testing.assert_array_equal(answer["y"], Session(model)({"x": x})["y"])


def test_what_a_worker_could_not_do_is_raised_here_as_it_was_there(tmp_path: Path) -> None:
    model = serving.save("picky", tmp_path / "picky.onnx")
    np.savez(tmp_path / "i.npz", i=np.array([0, 1, 9], np.int64))
    with pytest.raises(RuntimeRefused, match="failed while running") as caught:
        list(answers(model, tmp_path / "i.npz"))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"engine": "abacus"}, UsageError),
        ({"data": None}, UsageError),
        ({"output": None}, UsageError),
        ({"output": "out.txt"}, UsageError),
        ({"inputs": {"x": 1}}, UsageError),
        ({"sizes": {"n": 2}}, UsageError),
        ({"data": "gone.npz"}, NotFound),
        ({"data": "empty"}, NotFound),
        ({"data": ".", "output": "out.npz"}, UsageError),
        ({"data": "twice"}, BadData),
        ({"data": "narrow.npz"}, BadData),
        ({"output": "gone/out.npz"}, OutputError),
        ({"model": "gone.onnx"}, NotFound),
    ],
)
def test_what_cannot_be_scored_is_refused_before_ray_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], error: type[SardonyxError]
) -> None:
    if not registry.installed("ray"):
        pytest.skip("ray is not installed; `make test` installs it")
    monkeypatch.chdir(tmp_path)
    serving.save("tiny", tmp_path / "tiny.onnx")
    np.savez("rows.npz", x=np.zeros((2, 4), np.float32))
    np.savez("narrow.npz", x=np.zeros((2, 3), np.float32))
    for folder in ("empty", "twice"):
        Path(folder).mkdir()
    np.savez("twice/a.npz", x=np.zeros((2, 4), np.float32))
    np.save("twice/a.npy", np.zeros((2, 4), np.float32))
    out = "out" if options.get("data") in ("empty", "twice") else "out.npz"
    words = {"model": "tiny.onnx", "data": "rows.npz", "output": out, "engine": "ray", **options}
    model, inputs = words.pop("model"), words.pop("inputs", None)
    with pytest.raises(error) as caught:
        sardonyx.run(model, inputs, **words)
    assert caught.value.hint
    assert not (tmp_path / out).exists()
    assert "ray" not in sys.modules or not sys.modules["ray"].is_initialized()
