"""What doctor finds, on installations made to be broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sardonyx
from sardonyx import machine, registry, runtime
from sardonyx.doctor import examination, installation
from sardonyx.doctor.installation import Loaded, Mismatch
from sardonyx.report import Report

HEALTHY = Loaded("1.31.1", ("CPUExecutionProvider",))


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Doctor over a made-up installation; without arguments a healthy one."""

    def examine(
        distributions: dict[str, str] | None = None, loaded: Loaded = HEALTHY, wrong: tuple[Mismatch, ...] = ()
    ) -> Report:
        found = {"onnxruntime": "1.31.1"} if distributions is None else distributions
        monkeypatch.setattr(runtime, "installed_distributions", lambda: found)
        monkeypatch.setattr(examination, "loaded_runtime", lambda: loaded)
        monkeypatch.setattr(examination, "mismatches", lambda: list(wrong))
        return sardonyx.doctor()

    return examine


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings or ()]


def test_a_healthy_installation_is_ok(examined: Any) -> None:
    report = examined()
    assert (report.ok, report.verdict, report.findings) == (True, "ok", ())
    assert report["providers"] == ["CPUExecutionProvider"]
    assert report["telemetry"] == "off"
    assert report["threads"]["usable"] == machine.threads()
    assert report["memory"]["usable"] == machine.memory_bytes()
    assert report["versions"]["sardonyx"] == sardonyx.__version__
    assert report["onnxruntime"]["newest_opset"] == runtime.limits("1.31").opset
    assert report["cpu"]["int8"].endswith(".")
    assert json.loads(report.to_json())["verb"] == "doctor"


def test_two_runtimes_together_are_an_error_that_names_both(examined: Any) -> None:
    report = examined({"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.30.0"})
    assert (report.ok, report.verdict, codes(report)) == (False, "problems", ["onnxruntime-twice"])
    (finding,) = report.findings
    assert "onnxruntime 1.31.1 and onnxruntime-gpu 1.30.0" in finding.message
    assert finding.hint.endswith("pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu")


def test_a_runtime_that_does_not_load_is_an_error(examined: Any) -> None:
    report = examined(loaded=Loaded(trouble="ImportError: no library"))
    assert codes(report) == ["onnxruntime-broken"]
    assert "ImportError: no library" in report.findings[0].message
    assert "--force-reinstall" in report.findings[0].hint
    assert "does not load" in report.to_text()


def test_files_of_two_releases_are_noticed(examined: Any) -> None:
    assert codes(examined(loaded=Loaded("1.30.0", ("CPUExecutionProvider",)))) == ["onnxruntime-mixed"]


def test_a_release_newer_than_the_measured_ones_is_only_mentioned(examined: Any) -> None:
    report = examined({"onnxruntime": "1.99.0"}, Loaded("1.99.0", ("CPUExecutionProvider",)))
    assert (report.ok, codes(report)) == (True, ["onnxruntime-unmeasured"])


def test_a_release_older_than_the_measured_ones_does_not_stop_the_report(examined: Any) -> None:
    report = examined({"onnxruntime": "1.2.0"}, Loaded("1.2.0", ("CPUExecutionProvider",)))
    assert report["onnxruntime"]["newest_opset"] is None
    assert "1.2.0" in report.to_text()


def test_versions_outside_the_requirements_are_named_by_how_bad_they_are(examined: Any) -> None:
    report = examined(
        wrong=(
            Mismatch("protobuf", "7.1.0", "<7,>=5.28", None),
            Mismatch("onnx", "1.10.0", "<1.24,>=1.19", None),
            Mismatch("onnxscript", None, ">=0.7", None),
            Mismatch("torch", "2.1.0", ">=2.9", "torch"),
        )
    )
    assert [(finding.severity, finding.code, finding.where) for finding in report.findings] == [
        ("error", "protobuf-too-new", "protobuf"),
        ("error", "version-wrong", "onnx"),
        ("error", "package-missing", "onnxscript"),
        ("warning", "version-untested", "torch"),
    ]
    assert report.findings[0].hint == "pip install 'protobuf<7,>=5.28'"
    assert report.findings[3].hint == "pip install 'sardonyx[torch]'"


def test_telemetry_that_the_user_keeps_on_is_said(examined: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    report = examined()
    assert (report.ok, report["telemetry"], codes(report)) == (True, "on", ["telemetry-on"])


def test_missing_extras_come_with_their_command(examined: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "installed", lambda extra: extra != "jax")
    report = examined()
    assert report.ok, "a missing extra is no problem"
    assert [row["name"] for row in report["extras"]] == list(registry.EXTRAS)
    assert "no: pip install 'sardonyx[jax]'" in report.to_text()
    assert "sardonyx[torch]'" not in report.to_text()


def test_limits_of_a_container_are_explained(examined: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cpus", lambda: machine.Cpus(64, 32, 16, 2.5))
    monkeypatch.setattr(machine, "cgroup_memory", lambda: 1 << 30)
    monkeypatch.setattr(machine, "memory_bytes", lambda: 1 << 30)
    text = examined().to_text(width=120)
    assert "2 (64 CPUs, 32 by affinity, 16 by cpuset, 2.5 by the container's quota)" in text
    assert "1.0 GiB (the container's limit)" in text


def test_a_machine_that_tells_nothing_is_no_reason_to_fail(examined: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_read", lambda _: None)
    monkeypatch.setattr(machine, "_numpy_features", dict)
    monkeypatch.setattr(machine, "physical_memory", lambda: None)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    report = examined()
    assert report.ok
    assert report["memory"]["usable"] is None
    assert report["cpu"]["features"] == {}
    assert "cannot be read" in report["cpu"]["int8"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_to_the_width(examined: Any, width: int) -> None:
    assert max(map(len, examined().to_text(width=width).splitlines())) <= width


@pytest.mark.parametrize(
    ("version", "bounds", "within"),
    [
        ("6.33.6", ">=5.28,<7", True),
        ("7.0.0", ">=5.28,<7", False),
        ("7.1.0", "<7,>=5.28", False),
        ("5.27.9", ">=5.28,<7", False),
        ("2.13.0+cpu", ">=2.9", True),
        ("1.24.0rc1", "<1.24", False),
        ("0.9.0", ">=0.10", False),
        ("1.0", "", True),
    ],
)
def test_bounds_are_compared_by_number(version: str, bounds: str, within: bool) -> None:
    assert installation._within(version, bounds) is within


def test_requirements_are_matched_with_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=99", "onnx>=1", "no-such-thing>=1", 'rich>=99; extra == "vision"', 'other>=1; extra == "vision"']
    monkeypatch.setattr(installation, "_requirements", lambda: lines)
    assert [(found.name, found.extra) for found in installation.mismatches()] == [
        ("numpy", None),
        ("no-such-thing", None),
        ("rich", "vision"),
    ]


@pytest.mark.parametrize(
    ("features", "word"),
    [
        ({"AVX2": True, "AVX-512 VNNI": True, "AMX INT8": True}, "AMX"),
        ({"AVX2": True, "AVX-VNNI": True}, "VNNI"),
        ({"AVX2": True, "AVX-512": False}, "No VNNI"),
        ({"NEON": True, "NEON DotProd": True}, "DotProd"),
        ({"NEON": True, "NEON DotProd": False}, "No DotProd"),
        ({}, "cannot be read"),
    ],
)
def test_features_mean_something_for_int8(features: dict[str, bool], word: str) -> None:
    from sardonyx.doctor.int8 import meaning

    assert word in meaning(features)


def doctor_in(folder: Path, **environment: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of the command with `folder` first on the path."""
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv[1:] = ['doctor', '--json']; from sardonyx.cli import main; main()",
    ]
    shown = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
    )
    return shown.returncode, json.loads(shown.stdout)


def fake_distribution(folder: Path, name: str, version: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.heavy
def test_the_command_finds_a_second_runtime_and_a_protobuf_that_is_too_new(tmp_path: Path) -> None:
    fake_distribution(tmp_path, "onnxruntime-gpu", "1.30.0")
    fake_distribution(tmp_path, "protobuf", "7.1.0")
    code, answer = doctor_in(tmp_path)
    assert (code, answer["verdict"]) == (1, "problems")
    assert {finding["code"] for finding in answer["findings"]} == {"onnxruntime-twice", "protobuf-too-new"}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("raise ImportError('libfoo.so is missing')", "libfoo.so is missing"),
        ("import os; os.abort()", "SIGABRT"),
        ("", "its library is not"),
    ],
)
def test_the_command_survives_a_runtime_that_does_not(tmp_path: Path, source: str, word: str) -> None:
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").write_text(source)
    code, answer = doctor_in(tmp_path)
    assert code == 1
    (finding,) = answer["findings"]
    assert finding["code"] == "onnxruntime-broken"
    assert word in finding["message"]


@pytest.mark.heavy
def test_doctor_imports_no_framework_and_no_onnx() -> None:
    code = (
        "import sys, sardonyx; sardonyx.doctor(); "
        "print([m for m in ('onnx', 'onnxruntime', 'torch', 'tensorflow', 'jax', 'sklearn') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
