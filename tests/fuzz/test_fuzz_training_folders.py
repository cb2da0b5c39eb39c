"""Folders of training artifacts from a stranger: manifests, checkpoints and files of any form, given to every verb of train."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import sardonyx
from mutating import changed, damaged, disturb, watched
from sardonyx import training
from sardonyx.model import Model
from sardonyx.training.manifest import KEY
from soak import amount

pytestmark = pytest.mark.heavy
TEXT = f"""<ir_version: 10, opset_import: ["": 20]> g (float[n,4] x) => (float[n,3] y)
<float[4,3] w = {{{",".join(["0.1"] * 12)}}}, float[3] b = {{0, 0, 0}}> {{ z = MatMul(x, w) y = Add(z, b) }}"""
ROWS = {"x": np.ones((8, 4), np.float32), "label": np.zeros(8, np.int64)}


def other_manifest(chance: random.Random, folder: Path, _: Path) -> str:
    path = folder / "manifest.json"
    found = changed(chance, json.loads(path.read_text()))
    path.write_text(json.dumps(found, ensure_ascii=False), errors="surrogatepass")
    return f"manifest {str(found)[:3000]}"


def other_words(chance: random.Random, folder: Path, _: Path) -> str:
    """The manifest that a graph carries, changed; the graph itself stays, for its operators are another door."""
    path = folder / chance.choice(("eval_model.onnx", "step_model.onnx", "training_model.onnx", "optimizer_model.onnx"))
    proto = onnx.load(path)
    for item in proto.metadata_props:
        if item.key == KEY:
            item.value = json.dumps(changed(chance, json.loads(item.value)))
    onnx.save(proto, path)
    return f"the manifest in {path.name}"


def other_everywhere(chance: random.Random, folder: Path, _: Path) -> str:
    """One change of the manifest, in manifest.json and in every graph, so that they belong together."""
    found = changed(chance, json.loads((folder / "manifest.json").read_text()))
    (folder / "manifest.json").write_text(json.dumps(found))
    for path in folder.glob("*_model.onnx"):
        proto = onnx.load(path)
        for item in proto.metadata_props:
            item.value = json.dumps(found) if item.key == KEY else item.value
        onnx.save(proto, path)
    return f"everywhere {str(found)[:3000]}"


def other_checkpoint(chance: random.Random, folder: Path, _: Path) -> str:
    path = folder / "last"
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    if chance.random() < 0.5:
        words = header["__metadata__"]
        key = chance.choice(("trainable", "progress", "properties", "step"))
        words[key] = json.dumps(changed(chance, json.loads(words[key])))
        said = f"{key} {words[key][:2000]}"
    else:
        header = changed(chance, header)
        said = str(header)[:2000]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
    return f"checkpoint {said}"


def other_bytes(chance: random.Random, folder: Path, _: Path) -> str:
    path = folder / chance.choice(("manifest.json", "last", "checkpoint"))
    path.write_bytes(damaged(chance, path.read_bytes(), head=2000))
    return f"bytes of {path.name}"


CHANGES: list[Callable[[random.Random, Path, Path], str]] = [
    other_manifest, other_everywhere, other_everywhere, other_words, other_checkpoint, other_checkpoint, other_bytes, disturb,
]  # fmt: skip


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_training_folder_of_a_stranger_is_trained_or_named(tmp_path: Path) -> None:
    made, folder, chance = tmp_path / "made", tmp_path / "run", random.Random("training")
    training.prepare(Model.from_text(TEXT), made)
    sardonyx.train(made, data=ROWS, batch_size=8)
    verbs: dict[str, Callable[[], Any]] = {
        "resume": lambda: sardonyx.train(folder, data=ROWS, epochs=2, batch_size=8, resume=True),
        "accumulate": lambda: sardonyx.train(folder, data=ROWS, epochs=1, batch_size=4, restart=True, accumulate=2),
        "evaluate": lambda: training.evaluate(folder, data=ROWS),
        "export": lambda: training.export(folder, tmp_path / "m.onnx"),
    }
    with watched(tmp_path / "outside") as watch:
        for number in range(amount(160, 100_000)):
            shutil.copytree(made, folder)
            said = chance.choice(CHANGES)(chance, folder, tmp_path / "outside")
            verb = chance.choice(sorted(verbs))
            watch.meet((number, verb, said), verbs[verb])
            shutil.rmtree(folder)
    assert {path.name for path in tmp_path.iterdir()} <= {"made", "m.onnx", "outside", "twin"}
    assert len(watch.ends) > 2
