"""What each onnxruntime release loads."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sardonyx import runtime
from sardonyx.errors import UsageError


def test_the_table_never_goes_back() -> None:
    rows = list(runtime.measured().values())
    assert len(rows) > 10
    for older, newer in pairwise(rows):
        assert (newer.opset, newer.ml_opset, newer.ir_version) >= (older.opset, older.ml_opset, older.ir_version)


def test_the_installed_release_is_found_without_importing_it() -> None:
    release = runtime.installed_release()
    assert release is not None
    assert runtime.limits().release == ".".join(release.split(".")[:2])


def test_a_patch_release_has_the_limits_of_its_release() -> None:
    assert runtime.limits("1.23.2") == runtime.limits("1.23")


def test_an_older_release_has_its_own_limits() -> None:
    assert runtime.limits("1.17").opset == 20
    assert runtime.limits("1.31").opset == 26


def test_an_unmeasured_newer_installation_gets_the_newest_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "installed_release", lambda: "9.0.0.dev20300101")
    assert runtime.limits() == list(runtime.measured().values())[-1]


@pytest.mark.parametrize("version", ["0.1", "9.9", "1", "latest", "1.x"])
def test_a_release_that_was_never_measured_is_a_usage_error(version: str) -> None:
    with pytest.raises(UsageError, match=f"no measurement of onnxruntime {version}") as caught:
        runtime.limits(version)
    assert "measured releases are 1." in caught.value.hint


def test_no_installation_means_the_newest_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "installed_distributions", dict)
    assert runtime.installed_release() is None
    assert runtime.limits() == list(runtime.measured().values())[-1]


@pytest.mark.heavy
def test_the_limits_of_the_installed_release_are_true() -> None:
    """A model at the limit loads, and one above does not."""
    import onnxruntime as ort
    from onnx import TensorProto, helper

    def loads(opset: int, ir_version: int) -> bool:
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", [x], [y])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
        try:
            ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        except Exception:  # noqa: BLE001  onnxruntime raises a class of its own for each status
            return False
        return True

    limits = runtime.limits()
    assert loads(limits.opset, limits.ir_version)
    assert not loads(limits.opset + 1, limits.ir_version)
    assert not loads(limits.opset, limits.ir_version + 1)
