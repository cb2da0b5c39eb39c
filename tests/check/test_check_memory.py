"""A gigabyte of weights beside the model stays out of our memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper

MEASURE = """
import json, re, sys
import sardonyx
report = sardonyx.check(sys.argv[1])
# Not ru_maxrss, which a process inherits from the one that started it.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) * 1024
print(json.dumps({"peak": peak, "ok": report.ok, "codes": [finding.code for finding in report.findings]}))
"""
SIDE, COUNT = 2048, 64


def gigabyte(folder: Path) -> Path:
    """64 equal matrices, so that every byte has to be compared."""
    block = bytes(range(256)) * (SIDE * SIDE * 4 // 256)
    nodes, weights = [], []
    with (folder / "model.data").open("wb") as file:
        for index in range(COUNT):
            weight = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=[SIDE, SIDE], data_location=1)
            entries = {"location": "model.data", "offset": str(file.tell()), "length": str(len(block))}
            for key, value in entries.items():
                weight.external_data.add(key=key, value=value)
            file.write(block)
            weights.append(weight)
            nodes.append(helper.make_node("MatMul", [f"v{index}", f"w{index}"], [f"v{index + 1}"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", SIDE]) for name in ("v0", f"v{COUNT}")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


@pytest.mark.heavy
def test_the_parent_stays_under_300_mb_on_a_gigabyte_of_external_data(tmp_path: Path) -> None:
    path = gigabyte(tmp_path)
    assert (tmp_path / "model.data").stat().st_size == 1 << 30
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["ok"]
    assert answer["codes"] == ["duplicate-initializer"]
    assert answer["peak"] < 300 * 10**6
    (tmp_path / "model.data").unlink()
