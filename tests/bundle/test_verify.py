"""verify: every byte counts, rounding is told from change, the first changed node is named, hostile bundles are refused.

What replays starts a process and is heavy; a bundle that is not whole is refused before that.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import faulty_runtime
import sardonyx
from bundling import by_hand, network, resealed
from sardonyx import golden
from sardonyx.bundle.contents import canonical, digest, read_record
from sardonyx.bundle.golden import keep_cases
from sardonyx.errors import InputError, NotFound
from sardonyx.model import Model
from sardonyx.run.session import store_level


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return by_hand(tmp_path_factory.mktemp("verify") / "bundle")


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "bundle"))


@pytest.mark.heavy
def test_a_whole_bundle_is_verified_with_every_file_and_case_named(bundle: Path) -> None:
    report = sardonyx.verify(bundle)
    assert (report.verdict, report.ok) == ("verified", True)
    assert {file["name"] for file in report["files"]} == {"bundle.json", "golden.safetensors", "model.onnx"}
    assert [case["verdict"] for case in report["cases"]] == ["equal", "equal"]


@pytest.mark.heavy
def test_any_flipped_byte_of_any_file_is_caught_and_the_file_named(bundle: Path) -> None:
    """The whole of bundle.json, and bytes all over the others; nothing is run on a bundle that is not whole."""
    moments = random.Random(3)
    for path in sorted(bundle.iterdir()):
        whole = path.read_bytes()
        places = range(len(whole)) if path.name == "bundle.json" else moments.sample(range(len(whole)), 60)
        for place in places:
            flipped = bytearray(whole)
            flipped[place] ^= 1 << moments.randrange(8)
            path.write_bytes(flipped)
            report = sardonyx.verify(bundle)
            assert report.verdict == "tampered", (path.name, place)
            assert [file["name"] for file in report["files"] if not file["ok"]] == [path.name]
        path.write_bytes(whole)


@pytest.mark.parametrize("name", ["bundle.json", "model.onnx", "golden.safetensors"])
@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_shortened_file_is_caught(bundle: Path, name: str, cut: int) -> None:
    (bundle / name).write_bytes((bundle / name).read_bytes()[:cut])
    report = sardonyx.verify(bundle)
    assert report.verdict == "tampered"
    assert [file["name"] for file in report["files"] if not file["ok"]] == [name]


def test_missing_added_and_linked_files_are_named(bundle: Path) -> None:
    whole = {path.name: path.read_bytes() for path in bundle.iterdir()}

    def wrong() -> dict[str, str]:
        report = sardonyx.verify(bundle)
        assert report.verdict == "tampered"
        return {file["name"]: file["problem"] for file in report["files"] if not file["ok"]}

    (bundle / "model.onnx").unlink()
    assert wrong() == {"model.onnx": "it is missing"}
    (bundle / "model.onnx").symlink_to("/etc/hostname")
    assert wrong() == {"model.onnx": "it is a link"}
    (bundle / "model.onnx").unlink()
    (bundle.parent / "elsewhere").write_bytes(whole["model.onnx"])
    os.link(bundle.parent / "elsewhere", bundle / "model.onnx")
    assert "link" in wrong()["model.onnx"]
    (bundle / "model.onnx").unlink()
    (bundle / "model.onnx").write_bytes(whole["model.onnx"])
    (bundle / ".hidden").write_text("a present")
    assert wrong() == {".hidden": "it was added"}


@pytest.mark.rest
@pytest.mark.heavy
def test_a_bundle_of_the_same_form_but_another_digest_is_caught_where_the_digest_is_known(bundle: Path) -> None:
    expected = read_record(bundle)["digest"]
    assert sardonyx.verify(bundle, digest=expected).ok
    resealed(bundle, made="by somebody else")
    assert sardonyx.verify(bundle).ok, "a digest alone proves that nothing broke, not who made it"
    report = sardonyx.verify(bundle, digest=expected)
    assert report.verdict == "tampered"
    assert "bundle.json" in report.summary


def changed_weight(bundle: Path, name: str, by: float) -> None:
    model = Model.load(bundle / "model.onnx")
    value = model.ir.graph.initializers[name]
    assert value.const_value is not None
    array = value.const_value.numpy().copy()
    array.reshape(-1)[5] += by
    value.const_value = ir.tensor(array, name=name)
    model.save(bundle / "model.onnx")


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize(("weight", "node"), [("w", "first"), ("b", "second"), ("v", "fourth")])
def test_an_answer_that_changed_is_traced_to_the_first_changed_node(bundle: Path, weight: str, node: str) -> None:
    """What a runtime with a faulty kernel would do: the model itself answers otherwise, and the hashes are right."""
    changed_weight(bundle, weight, 0.05)
    resealed(bundle, versions={"onnxruntime": "1.24.0"})
    report = sardonyx.verify(bundle)
    assert (report.verdict, report.ok) == ("changed", False)
    assert report["first_divergence"]["node"] == node
    assert node in report.summary
    codes = [finding["code"] for finding in report["findings"]]
    assert codes[:2] == ["answer-changed", "other-library"]


@pytest.mark.heavy
def test_rounding_is_told_from_change(bundle: Path) -> None:
    """One unit in the last place of every weight of a layer is what another kernel might do."""
    model = Model.load(bundle / "model.onnx")
    value = model.ir.graph.initializers["b"]
    assert value.const_value is not None
    value.const_value = ir.tensor(np.nextafter(value.const_value.numpy(), np.float32(np.inf)), name="b")
    model.save(bundle / "model.onnx")
    resealed(bundle)
    report = sardonyx.verify(bundle)
    assert report.verdict == "verified"
    assert "rounding" in {case["verdict"] for case in report["cases"]}


@pytest.mark.heavy
def test_a_model_that_the_runtime_does_not_load_is_a_change(bundle: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[n,8] x) => (float[n,4] y) { y = Frobnicate(x) }'
    Model.from_text(text).save(bundle / "model.onnx")
    resealed(bundle)
    report = sardonyx.verify(bundle)
    assert report.verdict == "changed"
    assert "Frobnicate" in report.summary


@pytest.mark.rest
@pytest.mark.heavy
def test_claims_that_were_measured_elsewhere_do_not_carry_over(tmp_path: Path) -> None:
    ratio = {"ratio": 3.0, "low": 2.5, "high": 3.5}
    metrics = {"speed": ratio, "quantize": {"speedup": ratio}, "optimize": {"speedup": {**ratio, "low": 0.9}}}
    bundle = by_hand(tmp_path / "bundle", metrics=metrics)
    here = sardonyx.verify(bundle)["claims"]
    assert [(claim["claim"], claim["carries_over"]) for claim in here] == [("speed", True), ("quantize", True)]
    resealed(bundle, machine={"cpu": "Abacus 9", "features": {"BEADS": True}, "threads": 2})
    report = sardonyx.verify(bundle)
    assert report.ok, "the answers are the same; only the speeds say nothing here"
    assert [claim["carries_over"] for claim in report["claims"]] == [False, False]
    assert "Abacus 9" in report["claims"][0]["why"]
    assert "lacks BEADS" in report["claims"][0]["why"]


HOSTILE = {
    "a path out of the bundle": {"files": {"../secret": "0"}, "sizes": {"../secret": 1}},
    "an absolute path": {"files": {"/etc/passwd": "0"}, "sizes": {"/etc/passwd": 1}},
    "a path with a drive": {"files": {"C:\\secret": "0"}, "sizes": {"C:\\secret": 1}},
    "a name with a zero": {"files": {"a\0b": "0"}, "sizes": {"a\0b": 1}},
    "an endless name": {"files": {"a" * 5000: "0"}, "sizes": {"a" * 5000: 1}},
    "no files": {"files": {}, "sizes": {}},
    "files that are no table": {"files": ["model.onnx"]},
    "hashes that are no text": {"files": {"model.onnx": {"a": 1}}, "sizes": {"model.onnx": 1}},
    "a size that is no number": {"files": {"model.onnx": "0"}, "sizes": {"model.onnx": "1"}},
    "an endless file": {"files": {"model.onnx": "0"}, "sizes": {"model.onnx": 1 << 60}},
    "no versions": {"versions": None},
    "no format": {"format": "new"},
}


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_record_with_a_right_digest_and_wrong_contents_is_refused(bundle: Path, fault: str) -> None:
    record = read_record(bundle)
    changes = {**HOSTILE[fault]}
    if fault.startswith(("a path", "an abs", "a name", "an end")):
        changes = {name: {**record[name], **changes[name]} for name in ("files", "sizes")}  # type: ignore[dict-item]
    record |= changes
    record["digest"] = digest(record)
    (bundle / "bundle.json").write_text(canonical(record))
    report = sardonyx.verify(bundle)
    assert report.verdict == "tampered"
    assert report["cases"] == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"digest": 1}', '{"a": NaN}', "\xff\xfe"])
def test_a_record_that_is_no_record_is_tampered_with(bundle: Path, text: str) -> None:
    (bundle / "bundle.json").write_bytes(text.encode("latin-1"))
    report = sardonyx.verify(bundle)
    assert report.verdict == "tampered"
    assert report["files"][0]["name"] == "bundle.json"


def test_weights_that_lie_outside_the_bundle_are_not_read(bundle: Path) -> None:
    proto = Model.load(bundle / "model.onnx").to_proto()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value="../secret")
    (bundle / "model.onnx").write_bytes(proto.SerializeToString())
    resealed(bundle)
    report = sardonyx.verify(bundle)
    assert report.verdict == "tampered"
    assert "../secret" in report["files"][1]["problem"]


@pytest.mark.heavy
def test_golden_cases_that_are_none_are_named(bundle: Path) -> None:
    (bundle / "golden.safetensors").write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00" + b'{"__metadata__":')
    resealed(bundle)
    report = sardonyx.verify(bundle)
    assert report.verdict == "changed"
    assert "golden" in report.summary


def test_a_folder_that_is_no_bundle_and_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no bundle\.json"):
        sardonyx.verify(tmp_path)
    with pytest.raises(NotFound, match="gone"):
        sardonyx.verify(tmp_path / "gone")


def test_a_bundle_of_a_later_format_is_not_called_tampered_with(bundle: Path) -> None:
    resealed(bundle, format=99)
    with pytest.raises(InputError, match="format 99"):
        sardonyx.verify(bundle)


def test_golden_cases_survive_their_file_with_strings_and_all(tmp_path: Path) -> None:
    cases = golden.Case({"x": np.ones((2, 3), np.float32)}, {"name": np.array(["a", "b"], object), "y": np.arange(2)})
    kept = golden.Golden((cases,), ({"name": (0.0, 0.0), "y": (0.0, 0.0)},), ({"tensor": "y"},))
    golden.save(kept, tmp_path / "g.safetensors")
    found = golden.load(tmp_path / "g.safetensors")
    assert found.cases[0].outputs["name"].tolist() == ["a", "b"]
    assert found.cases[0].outputs["y"].tolist() == [0, 1]
    assert (found.tolerances, found.marks) == (kept.tolerances, kept.marks)


def test_the_record_is_written_in_one_way_alone(bundle: Path) -> None:
    text = (bundle / "bundle.json").read_text()
    assert canonical(json.loads(text)) == text
    (bundle / "bundle.json").write_text(text.replace("\n", "\n\n", 1))
    assert sardonyx.verify(bundle).verdict == "tampered"


def test_the_network_of_these_tests_has_the_nodes_they_name() -> None:
    assert [node.name for node in network().ir.graph] == ["first", "second", "third", "fourth"]


# What onnxruntime's own optimiser gets wrong.


def test_golden_answers_come_from_a_session_without_the_optimiser(tmp_path: Path) -> None:
    path = faulty_runtime.save(tmp_path)
    model = Model.load(path)
    store_level(model, "basic")
    model.save(path)
    assert keep_cases(path, tmp_path / golden.GOLDEN, cases=1).ok
    case = golden.load(tmp_path / golden.GOLDEN).cases[0]
    np.testing.assert_allclose(case.outputs["y"], case.inputs["x"] @ case.inputs["w"], rtol=1e-5)


def test_golden_cases_that_the_runtime_would_not_repeat_are_not_kept(tmp_path: Path) -> None:
    report = keep_cases(faulty_runtime.save(tmp_path), tmp_path / golden.GOLDEN, cases=1)
    assert (report.verdict, report.ok) == ("not-kept", False)
    (finding,) = report["findings"]
    assert finding["code"] == "runtime-optimizer"
    assert "sardonyx optimize" in finding["hint"]


@pytest.mark.heavy
def test_an_answer_that_only_the_optimiser_changes_is_laid_at_its_door(tmp_path: Path) -> None:
    model = Model.from_text(faulty_runtime.VECTOR)
    store_level(model, "basic")
    bundle = by_hand(tmp_path / "bundle", model)
    assert sardonyx.verify(bundle).verdict == "verified"
    store_level(model, "all")
    model.save(bundle / "model.onnx")
    resealed(bundle)
    report = sardonyx.verify(bundle)
    assert (report.verdict, report["first_divergence"]) == ("changed", None)
    assert "the runtime's own graph optimisation makes the difference" in report["remark"]


def test_a_lone_number_is_kept_without_a_dimension(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> g (float x) => (float y) { y = Neg(x) }'
    keep_cases(Model.from_text(text).save(tmp_path / "m.onnx"), tmp_path / golden.GOLDEN, cases=1)
    case = golden.load(tmp_path / golden.GOLDEN).cases[0]
    assert (case.inputs["x"].shape, case.outputs["y"].shape) == ((), ())
