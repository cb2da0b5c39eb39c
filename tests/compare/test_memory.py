"""What a search holds in memory, measured in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from halves import split

SCRIPT = """
import sys
import numpy as np
from sardonyx.compare.flow import Flow
from sardonyx.compare.localize import localize
from sardonyx.model import Model
from sardonyx.run.session import Session

what, reference, candidate, data, last = sys.argv[1:]
with np.load(data) as file:
    inputs = dict(file)
if what == "plain":
    Session(reference)(inputs)
else:
    theirs, ours = Flow.of(Model.load(reference)), Flow.of(Model.load(candidate))
    names = {"inputs_of": {"r0": "r0"}, "outputs_of": {last: last}}
    found = localize(theirs, ours, inputs, output=last, memory=1 << 30, **names)
    assert found.node == what, found
status = open("/proc/self/status").read().splitlines()
print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def dense(wrong: bool) -> onnx.ModelProto:
    """Weights of 96 MiB, and activations of 8 MiB each."""
    random, size = np.random.default_rng(0), 2048
    nodes, weights = [], []
    for layer in range(6):
        weight = (random.standard_normal((size, size)) / np.sqrt(size)).astype(np.float32)
        weight[3, 5] += float(wrong and layer == 4)
        weights.append(onnx.numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(onnx.helper.make_node("MatMul", [f"r{layer}", f"w{layer}"], [f"m{layer}"], name=f"dense{layer}"))
        nodes.append(onnx.helper.make_node("Relu", [f"m{layer}"], [f"r{layer + 1}"], name=f"relu{layer}"))
    return finished(nodes, weights, "r0", ["n", size], "r6")


def convolutional(wrong: bool) -> onnx.ModelProto:
    """Weights of next to nothing, and activations of 16 MiB each."""
    random, channels = np.random.default_rng(0), 16
    nodes, weights = [], []
    for layer in range(8):
        weight = (random.standard_normal((channels, channels, 3, 3)) / 12).astype(np.float32)
        weight[0, 0, 0, 0] += float(wrong and layer == 5)
        weights.append(onnx.numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(
            onnx.helper.make_node("Conv", [f"r{layer}", f"w{layer}"], [f"m{layer}"], name=f"conv{layer}", pads=[1] * 4)
        )
        nodes.append(onnx.helper.make_node("Relu", [f"m{layer}"], [f"r{layer + 1}"], name=f"relu{layer}"))
    return finished(nodes, weights, "r0", ["n", channels, "h", "w"], "r8")


def finished(nodes: list, weights: list, first: str, shape: list, last: str) -> onnx.ModelProto:
    inputs = [onnx.helper.make_tensor_value_info(first, onnx.TensorProto.FLOAT, shape)]
    outputs = [onnx.helper.make_tensor_value_info(last, onnx.TensorProto.FLOAT, shape)]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def peak(what: str, folder: Path, last: str) -> int:
    words = [what, *(str(folder / name) for name in ("reference.onnx", "candidate.onnx", "data.npz")), last]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.heavy
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize(
    ("build", "shape", "guilty", "last"),
    split(
        [(dense, (1024, 2048), "dense4", "r6"), (convolutional, (1, 16, 512, 512), "conv5", "r8")],
        "convolutional",
        ids=["dense", "convolutional"],
    ),
)
def test_a_search_needs_less_than_twice_the_memory_of_a_plain_run(build, shape, guilty, last, tmp_path):
    onnx.save(build(wrong=False), tmp_path / "reference.onnx")
    onnx.save(build(wrong=True), tmp_path / "candidate.onnx")
    np.savez(tmp_path / "data.npz", r0=np.random.default_rng(1).standard_normal(shape).astype(np.float32))
    plain, search = peak("plain", tmp_path, last), peak(guilty, tmp_path, last)
    assert search < 2 * plain, (
        f"{search / 1024:.0f} MiB, {search / plain:.2f} times the {plain / 1024:.0f} MiB of a plain run"
    )
