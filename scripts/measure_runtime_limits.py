"""Measures the newest opset and IR version that each onnxruntime release loads, and writes `src/sardonyx/runtime_limits.json`.

Each release is installed by name into a folder of its own and asked to load one-node models, stamped from old to new,
in a child process. The tables in the documentation of onnxruntime are not used: what is written here was loaded.

    python scripts/measure_runtime_limits.py            # all releases that pip finds for this Python
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src" / "sardonyx" / "runtime_limits.json"
# Releases before 1.19 were built against numpy 1, which every later one accepts too.
NUMPY = "numpy==1.26.4"
PROBE = """
import glob, json, sys
import onnxruntime as ort
ort.set_default_logger_severity(4)
def loads(path):
    try:
        ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True
newest = {}
for kind in ("opset", "ml", "ir"):
    paths = {int(p.rpartition("-")[2][:-5]): p for p in glob.glob(f"{sys.argv[1]}/{kind}-*.onnx")}
    newest[kind] = max((n for n, p in paths.items() if loads(p)), default=None)
print(json.dumps(newest))
"""


def write_probes(folder: Path) -> None:
    from onnx import TensorProto, helper

    def model(name: str, opsets: dict[str, int], ir: int, node: tuple[str, str]) -> None:
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy")
        graph = helper.make_graph([helper.make_node(node[0], ["x"], ["y"], domain=node[1])], "g", [x], [y])
        imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        (folder / name).write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=ir).SerializeToString())

    for opset in range(11, 30):
        model(f"opset-{opset}.onnx", {"": opset}, 4, ("Abs", ""))
    for ml in range(1, 7):
        model(f"ml-{ml}.onnx", {"": 11, "ai.onnx.ml": ml}, 4, ("Binarizer", "ai.onnx.ml"))
    for ir in range(4, 16):
        model(f"ir-{ir}.onnx", {"": 11}, ir, ("Abs", ""))


def pip(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=True)
    return done.stdout


def releases() -> list[str]:
    listed = re.search(r"Available versions: (.*)", pip("index", "versions", "onnxruntime"))
    assert listed, "pip lists no onnxruntime"
    newest: dict[str, str] = {}
    for version in listed.group(1).split(", "):
        newest.setdefault(".".join(version.split(".")[:2]), version)
    return list(newest.values())


def measure(version: str, probes: Path) -> dict[str, int] | None:
    with tempfile.TemporaryDirectory() as folder:
        pip(
            "install",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--target",
            folder,
            f"onnxruntime=={version}",
            NUMPY,
        )
        child = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROBE, str(probes)],
            env={**os.environ, "PYTHONPATH": folder, "ORT_DISABLE_TELEMETRY": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        if child.returncode:
            print(version, "does not start here:", child.stderr.strip().splitlines()[-1:], file=sys.stderr)
            return None
        limits: dict[str, int] = json.loads(child.stdout)
        return limits if None not in limits.values() else None


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        write_probes(Path(folder))
        for version in releases():
            limits = measure(version, Path(folder))
            print(version, limits, flush=True)
            if limits:
                found[".".join(version.split(".")[:2])] = limits
    ordered = dict(sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")]))
    TARGET.write_text("{\n" + ",\n".join(f'  "{k}": {json.dumps(v)}' for k, v in ordered.items()) + "\n}\n")


if __name__ == "__main__":
    main()
