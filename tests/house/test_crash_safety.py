"""Killed, out of space or too big for memory: what lies on the disk is the old model or the new one, and whole."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sardonyx.model import Model

pytestmark = pytest.mark.heavy

MEGABYTE = 1 << 20
GIGABYTE = 1 << 30

MODELS = """
import sys
import numpy as np
import onnx_ir as ir
from sardonyx.model import Model

def model(value, size):
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[n] x) => (float[n] y) <float[1] w = {0}> { y = Add(x, w) }'
    made = Model.from_text(text)
    made.ir.graph.initializers["w"].const_value = ir.Tensor(np.full(size, value, np.float32), name="w")
    return made
"""


def weights_of(path: Path) -> set[float]:
    tensor = Model.load(path).ir.graph.initializers["w"].const_value
    assert tensor is not None
    return set(tensor.numpy().tolist())


def run(script: str, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MODELS + script, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.rest
@pytest.mark.parametrize("outside", [True, False])
def test_a_process_killed_in_the_middle_of_a_save_leaves_a_whole_model(tmp_path: Path, outside: bool) -> None:
    """A child saves two models over each other without end and is killed at moments that nobody chose."""
    path = tmp_path / "m.onnx"
    script = f"""
models = [model(value, {MEGABYTE // 2}) for value in (1, 2)]
models[0].save(sys.argv[1], external_data={outside})
print("ready", flush=True)
while True:
    for made in models:
        made.save(sys.argv[1], external_data={outside})
"""
    moments, seen = random.Random(4), set[float]()
    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", MODELS + script, path], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            time.sleep(moments.uniform(0, 0.1))
            child.send_signal(signal.SIGKILL)
        values = weights_of(path)
        assert len(values) == 1, "half of one model and half of another"
        seen |= values
    assert seen <= {1, 2}
    Model.load(path).save(path)
    assert weights_of(path) <= {1, 2}


SMALL_FILES = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({MEGABYTE}, {MEGABYTE}))\n"


@pytest.mark.rest
@pytest.mark.parametrize("outside", [True, False])
def test_a_write_that_fails_leaves_the_old_model_and_its_data(tmp_path: Path, outside: bool) -> None:
    path = tmp_path / "m.onnx"
    assert run("model(1, 1000).save(sys.argv[1], external_data=True)", path).returncode == 0
    before = sorted(tmp_path.iterdir())
    failed = run(f"{SMALL_FILES}model(2, {MEGABYTE}).save(sys.argv[1], external_data={outside})", path)
    assert "OutputError: cannot write" in failed.stderr
    assert weights_of(path) == {1}
    assert sorted(tmp_path.iterdir()) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes, where mounting is allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("this machine does not allow mounting a small disk")
    yield disk
    # Lazily, because a model that nobody collected yet may still map a file on it.
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.rest
@pytest.mark.parametrize("outside", [True, False])
def test_a_full_disk_leaves_the_old_model_and_its_data(small_disk: Path, outside: bool) -> None:
    path = small_disk / "m.onnx"
    assert run("model(1, 1000).save(sys.argv[1], external_data=True)", path).returncode == 0
    before = sorted(small_disk.iterdir())
    failed = run(f"model(2, {2 * MEGABYTE}).save(sys.argv[1], external_data={outside})", path)
    assert "No space left on device" in failed.stderr or "the disk may be full" in failed.stderr
    assert weights_of(path) == {1}
    assert sorted(small_disk.iterdir()) == before


BIG = """
from pathlib import Path
import onnx
from onnx import TensorProto, helper

folder, size = Path(sys.argv[1]), int(sys.argv[2])
with (folder / "w.bin").open("wb") as file:  # zeros that take no room, and a one at the end
    file.truncate(size)
    file.seek(size - 4)
    file.write(np.float32(1).tobytes())
tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size // 4], data_location=TensorProto.EXTERNAL)
tensor.external_data.add(key="location", value="w.bin")
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [size // 4]) for name in "xy")
graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [tensor])
proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
(folder / "m.onnx").write_bytes(proto.SerializeToString())

big = Model.load(folder / "m.onnx")
assert big.weight_bytes() == size
(folder / "new").mkdir()
big.save(folder / "new" / "m.onnx")
assert big.ir.graph.initializers["w"].const_value.numpy()[-1] == 1
# Not ru_maxrss, which a process inherits from the one that started it.
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) // 1024)
"""


@pytest.fixture
def roomy() -> Iterator[Path]:
    """A folder with room for two copies of a big model, in memory where there is some: disks of test machines are slow."""
    needed = 6 * GIGABYTE
    for place in ("/dev/shm", tempfile.gettempdir()):
        if os.path.isdir(place) and shutil.disk_usage(place).free > needed:  # noqa: PTH112
            with tempfile.TemporaryDirectory(dir=place) as folder:
                yield Path(folder)
            return
    pytest.skip("no folder here has six gigabytes of room")


def test_a_model_over_two_gigabytes_is_loaded_and_saved_in_little_memory(roomy: Path) -> None:
    done = run(BIG, roomy, 5 * GIGABYTE // 2)
    assert done.returncode == 0, done.stderr
    assert (roomy / "new" / "m.onnx.data").stat().st_size == 5 * GIGABYTE // 2
    assert int(done.stdout) < 300, "megabytes of memory at the peak"
