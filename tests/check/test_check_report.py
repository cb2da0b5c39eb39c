"""The report as a whole: codes, targets, words and the promise of the folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hostile
import sardonyx
from checking import HEAD
from sardonyx import registry
from sardonyx.check import _report
from sardonyx.errors import NotFound, UsageError

GOOD = f"{HEAD} g (float[n] x) => (float[n] y) {{ y = Relu(x) }}"
SOURCE = Path(_report.__file__).parent


@pytest.mark.parametrize("package", [_report.CHECKS, _report.TARGETS])
def test_every_file_declares_its_codes_and_says_what_it_looks_for(package: str) -> None:
    for name in registry.names(package):
        module = registry.load(package, name)
        assert module.__doc__, name
        assert len(module.__doc__.strip().splitlines()) == 1, name
        assert callable(module.findings), name
        assert all(
            re.fullmatch(r"[a-z0-9-]+", code) and meaning.endswith(".") for code, meaning in module.CODES.items()
        )


def test_every_code_that_appears_in_the_source_is_declared() -> None:
    declared = _report.codes()
    assert len(declared) == sum(
        len(registry.load(package, name).CODES)
        for package in (_report.CHECKS, _report.TARGETS)
        for name in registry.names(package)
    )
    emitted = set()
    for path in [*SOURCE.glob("[!_]*.py"), *(SOURCE / "_targets").glob("[!_]*.py")]:
        emitted |= set(
            re.findall(r'(?:Finding|_finding)\(\s*[\w."]+,\s*"([a-z0-9]+(?:-[a-z0-9]+)+)"', path.read_text())
        )
        emitted |= set(re.findall(r'_finding\(\s*"([a-z0-9]+(?:-[a-z0-9]+)+)"', path.read_text()))
    assert len(emitted) > 20
    assert emitted <= set(declared)


def test_an_unknown_target_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no target 'toaster'") as caught:
        sardonyx.check(tmp_path / "gone.onnx", targets=["toaster"])
    assert "cpu, mobile, web" in caught.value.hint


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_load_without_time_is_refused(tmp_path: Path, timeout: float) -> None:
    with pytest.raises(UsageError, match="cannot end within"):
        sardonyx.check(tmp_path / "gone.onnx", timeout=timeout)


def test_a_release_that_nobody_measured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no measurement"):
        sardonyx.check(hostile.written(tmp_path, GOOD), ort="0.1")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        sardonyx.check(tmp_path / "gone.onnx")


@pytest.mark.heavy
def test_a_good_model_is_ok_here_and_from_some_release_on(tmp_path: Path) -> None:
    report = sardonyx.check(hostile.written(tmp_path, GOOD))
    assert (report.ok, report.verdict, report["fixed"]) == (True, "ok", [])
    assert [row["target"] for row in report["runs_on"]] == ["cpu", "onnxruntime >= 1.15"]
    assert all(row["ok"] and row["reason"] for row in report["runs_on"])
    assert "nothing wrong" in report.to_text()


@pytest.mark.heavy
def test_every_target_gives_its_row(tmp_path: Path) -> None:
    report = sardonyx.check(hostile.written(tmp_path, GOOD), targets=registry.names(_report.TARGETS), ort="1.20")
    assert [row["target"] for row in report["runs_on"]] == ["cpu", "mobile", "web", "onnxruntime 1.20"]
    assert {finding.code for finding in report.findings or ()} <= set(_report.codes())


@pytest.mark.heavy
def test_errors_come_first_and_the_refused_load_after_its_cause(tmp_path: Path) -> None:
    report = sardonyx.check(hostile.unknown_operator(tmp_path))
    assert [finding.code for finding in report.findings or ()] == ["unknown-operator", "load-refused"]
    assert (report.ok, report.verdict) == (False, "problems")
    assert "2 errors" in report.summary


@pytest.mark.heavy
def test_graphs_nested_as_deep_as_protobuf_reads_are_checked(tmp_path: Path) -> None:
    report = sardonyx.check(hostile.nested(tmp_path, depth=30))
    assert not report.ok
    assert {finding.code for finding in report.findings or ()} <= set(_report.codes())
