"""Hostile files end the process that was made to meet them, and no other: every verb names what happened."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hostile_models
import sardonyx
from halves import split
from sardonyx import containment, sandbox
from sardonyx.cli import _contained
from sardonyx.errors import Contained, MissingExtra, NotFound, SardonyxError
from sardonyx.report import Finding, Report, Table
from sardonyx.sandbox import Confinement

COMMAND = str(Path(sys.executable).with_name("sardonyx"))
CRASHING = ("gather-nd", "layer-norm", "attention", "split-to-sequence", "negative-dimension")
VERBS: dict[str, list[str]] = {
    "inspect": ["inspect", "{model}"],
    "run": ["run", "{model}"],
    "view": ["view", "{model}", "-o", "{out}/page.html"],
    "compare": ["compare", "{model}", "{model}"],
    "quantize": ["quantize", "{model}", "-o", "{out}/q.onnx", "--data", "{data}", "--time", "8"],
    "optimize": ["optimize", "{model}", "-o", "{out}/o.onnx", "--data", "{data}", "--seconds", "8"],
    "train prepare": ["train", "prepare", "{model}", "-o", "{out}/prepared"],
    "package": ["package", "{model}", "--target", "triton", "-o", "{out}/image"],
    "check": ["check", "{model}"],
    "ship": ["ship", "{model}", "-o", "{out}/bundle"],
}
CASES = [f"{verb} {model}" for verb in VERBS for model in CRASHING]


@pytest.mark.heavy
@pytest.mark.parametrize("case", split(CASES, "run attention", "inspect gather-nd", "train prepare layer-norm"))
def test_a_hostile_operator_is_a_clean_answer(case: str, tmp_path: Path) -> None:
    verb, _, name = case.rpartition(" ")
    (tmp_path / "out").mkdir()
    np.savez(tmp_path / "data.npz", x=np.ones((8, 2), np.float32))
    words = {"model": hostile_models.write(name, tmp_path), "out": tmp_path / "out", "data": tmp_path / "data.npz"}
    command = [COMMAND, *(word.format(**words) for word in VERBS[verb]), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 2), done.stderr
    answer = json.loads(done.stdout)
    if done.returncode == 2:
        assert answer["error"]["code"] != "internal" or "cannot be built" in answer["error"]["message"]
        assert answer["error"]["hint"]
    assert "Traceback" not in done.stderr
    assert not [path.name for path in (tmp_path / "out").iterdir() if path.name.endswith(".part")]


@pytest.mark.heavy
@pytest.mark.skipif(not sandbox.available()["landlock"], reason="this kernel has no Landlock")
def test_ship_reads_what_its_settings_name_and_nothing_else(tmp_path: Path) -> None:
    """Settings lie in the current folder and name data elsewhere; a weights file that leads outside is not read."""
    for folder in ("here", "data", "model"):
        (tmp_path / folder).mkdir()
    model = hostile_models.write("negative-dimension", tmp_path / "model")
    np.savez(tmp_path / "data" / "d.npz", x=np.ones((8, 2), np.float32))
    settings = f'skip = ["optimize", "quantize", "bench"]\n[compare]\ndata = "{tmp_path / "data" / "d.npz"}"\n'
    (tmp_path / "here" / "sardonyx.toml").write_text(settings)
    options = {"source": str(model), "output": Path("bundle"), "config": None, "set": ["quantize.metric=m.py:f"]}
    with contextlib.chdir(tmp_path / "here"):
        confined = _contained.work("ship", {**options, "set": []}).confinement
        trusting = _contained.work("ship", options).confinement
    assert confined.files
    assert not confined.network
    assert {str(tmp_path / "data"), str(tmp_path / "here"), str(tmp_path / "model")} <= set(confined.reads)
    assert not trusting.files
    done = subprocess.run(
        [COMMAND, "ship", str(model), "-o", "bundle", "-q"],
        cwd=tmp_path / "here",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "denied" not in done.stderr.lower(), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_model_in_an_endless_loop(number: signal.Signals, tmp_path: Path) -> None:
    model = hostile_models.write("endless", tmp_path)
    with subprocess.Popen(
        [COMMAND, "run", str(model)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stderr is not None
        while "running the model" not in (line := command.stderr.readline()):
            assert line, "it ended by itself"
        (inner,) = children(command.pid)
        command.send_signal(number)
        _, stderr = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "error[interrupted]" in stderr
    assert not Path(f"/proc/{inner}").exists()


def children(process: int) -> list[int]:
    return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


@pytest.mark.heavy
def test_the_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    model = hostile_models.write("endless", tmp_path)
    with subprocess.Popen([COMMAND, "run", str(model)], stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        command.stderr.readline()
        (inner,) = children(command.pid)
        command.kill()
        command.stderr.read()
    end = time.monotonic() + 60
    while time.monotonic() < end and Path(f"/proc/{inner}").exists():
        time.sleep(0.05)
    assert not Path(f"/proc/{inner}").exists()


@pytest.mark.heavy
def test_run_ends_after_its_timeout(tmp_path: Path) -> None:
    model = hostile_models.write("endless", tmp_path)
    done = subprocess.run([COMMAND, "run", str(model), "--timeout", "3"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error[contained]: run of" in done.stderr
    assert "--timeout" in done.stderr


@pytest.mark.heavy
@pytest.mark.rest
def test_shape_inference_that_does_not_end_is_ended(tmp_path: Path) -> None:
    done = subprocess.run(
        [COMMAND, "inspect", str(hostile_models.write("einsum", tmp_path))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "error[contained]" in done.stderr


@pytest.mark.heavy
def test_from_python_too_a_hostile_file_ends_another_process(tmp_path: Path) -> None:
    with pytest.raises(Contained, match="SIGSEGV"):
        sardonyx.inspect(hostile_models.write("gather-nd", tmp_path))
    with pytest.raises(Contained, match="SIGFPE"):
        sardonyx.run(hostile_models.write("attention", tmp_path))
    with pytest.raises(Contained, match="did not end within 2 s"):
        sardonyx.run(hostile_models.write("endless", tmp_path), timeout=2)
    with pytest.raises(SardonyxError):
        sardonyx.run(hostile_models.write("memory", tmp_path))
    assert sardonyx.inspect(hostile_models.write("negative-dimension", tmp_path)).ok  # the warm process lives


@pytest.mark.heavy
@pytest.mark.skipif(not sandbox.available()["landlock"], reason="this kernel has no Landlock")
def test_a_command_reads_its_model_by_a_link_and_writes_where_it_was_told(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "link.onnx").symlink_to(hostile_models.write("negative-dimension", tmp_path))
    command = [COMMAND, "view", "link.onnx", "-o", "../page.html"]
    done = subprocess.run(command, cwd=tmp_path / "cache", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").exists()


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="the address space is limited on Linux")
@pytest.mark.parametrize("verb", ["inspect", "check", "run"])
def test_a_verb_works_under_a_lower_limit_of_the_shell(verb: str, tmp_path: Path) -> None:
    model = hostile_models.write("negative-dimension", tmp_path)
    script = f'ulimit -v {6 << 20}; exec "$0" "$@"'
    done = subprocess.run(["sh", "-c", script, COMMAND, verb, str(model)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FULL = Report(
    "verb", "fine", True, {"number": 1, "nested": {"list": [1, 2.5, None]}}, (Finding("info", "code", "where", "message"),),
    (Table("title", ("a", "b"), ((1, None), ("x", 2.5))),), "summary", {}, "listing",
)  # fmt: skip


def test_a_report_is_the_same_after_the_way_between_processes() -> None:
    told = json.loads(json.dumps(containment.report_as_data(FULL)))
    assert containment.report_from_data(told) == FULL


@pytest.mark.parametrize("told", [{}, {"verb": "x"}, {**containment.report_as_data(FULL), "tables": [1]}])
def test_nonsense_from_the_child_is_an_error(told: dict[str, object]) -> None:
    with pytest.raises(Contained, match="nonsense"):
        containment.report_from_data(told)


def test_an_error_keeps_its_class_on_the_way_between_processes() -> None:
    for error in (NotFound("m", hint="h"), MissingExtra("this", "torch"), Contained("m", hint="h")):
        again = containment.error_from_data(error.to_dict())
        assert (type(again), again.to_dict(), again.exit_code) == (type(error), error.to_dict(), error.exit_code)


DOES = """
import os, sys, time
from sardonyx import containment
from sardonyx.report import Report
from sardonyx.sandbox import Confinement
def do():
    {body}
    return Report("verb", "fine", True)
try:
    print(containment.forked(containment.Work("verb", "m.onnx", Confinement(), {seconds}), do).verdict)
except Exception as error:
    print(error.code, error.message)
"""


@pytest.mark.parametrize(
    ("body", "seconds", "said"),
    [
        ("pass", None, "fine"),
        ("os.abort()", None, "contained verb of m.onnx crashed a library (SIGABRT)"),
        ("time.sleep(600)", 0.5, "contained verb of m.onnx was ended: it did not end within 0.5 s"),
        ("os.close(1); os._exit(0)", None, "internal the process of verb"),
        ("os.kill(os.getpid(), 9)", None, "contained verb of m.onnx was ended: the system has no memory left"),
    ],
)
def test_every_end_of_the_child_has_its_name(body: str, seconds: float | None, said: str) -> None:
    script = DOES.format(body=body, seconds=seconds)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.startswith(said), done.stdout + done.stderr


def test_the_scratch_folder_is_gone_even_when_the_child_was_killed(tmp_path: Path) -> None:
    script = DOES.format(body="import tempfile; tempfile.mkdtemp(); os.abort()", seconds=None)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, check=False)
    assert list(tmp_path.iterdir()) == []


def test_the_limit_is_the_free_memory_and_more_for_a_larger_file(tmp_path: Path) -> None:
    free = containment.free_memory()
    if free is None:
        pytest.skip("this system does not say how much memory is free")
    (tmp_path / "m.onnx").write_bytes(bytes(1 << 20))
    assert (containment.address_space(tmp_path / "m.onnx") or 0) > containment.OVERHEAD
    assert Confinement().memory is None
