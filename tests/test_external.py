"""External data that is missing, cut short, linked or outside the model's folder is found before it is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from sardonyx import external
from sardonyx.errors import BrokenModel
from sardonyx.model import Model

BYTES = 16


def model_with(location: str = "w.data", **fields: str) -> onnx.ModelProto:
    """y = x + w, with the four floats of w in another file."""
    tensor = external_tensor("w", location, **{"offset": "0", "length": str(BYTES), **fields})
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def external_tensor(name: str, location: str, **fields: str) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **fields}.items():
        if value != "absent":
            tensor.external_data.add(key=key, value=value)
    return tensor


def code_of(model: onnx.ModelProto, folder: Path) -> str:
    found = external.findings(model, folder)
    assert len(found) == 1
    assert found[0].severity == "error"
    assert found[0].where == "tensor w"
    assert found[0].hint
    return found[0].code


def test_data_that_is_there_and_whole_is_no_finding(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(bytes(BYTES))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.data").write_bytes(bytes(BYTES))
    for location in ("w.data", "./w.data", "sub/w.data"):
        assert external.findings(model_with(location), tmp_path) == []


def test_the_folder_itself_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "w.data").write_bytes(bytes(BYTES))
    (tmp_path / "link").symlink_to("real")
    assert external.findings(model_with(), tmp_path / "link") == []


OUTSIDE = [
    "../w.data", "sub/../../w.data", "..", "/etc/passwd", "C:\\data\\w.data", "C:w.data", "\\\\host\\share\\w.data", "..\\w.data",
    "sub\\..\\..\\w.data", "\\w.data", "w.data\0.txt",
]  # fmt: skip


@pytest.mark.parametrize("location", OUTSIDE)
def test_a_path_that_leaves_the_folder_by_the_rules_of_any_system_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "w.data").write_bytes(bytes(BYTES))
    assert code_of(model_with(location), tmp_path / "model") == "external-data-outside"


def linked_file(folder: Path) -> None:
    (folder / "other").write_bytes(bytes(BYTES))
    (folder / "w.data").symlink_to("other")


def hard_linked_file(folder: Path) -> None:
    (folder / "other").write_bytes(bytes(BYTES))
    (folder / "w.data").hardlink_to(folder / "other")


LINKED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a link": ("w.data", linked_file),
    "a link to nowhere": ("w.data", lambda folder: (folder / "w.data").symlink_to("nowhere")),
    "a hard link": ("w.data", hard_linked_file),
    "a pipe": ("w.data", lambda folder: os.mkfifo(folder / "w.data")),
    "a folder": ("w.data", lambda folder: (folder / "w.data").mkdir()),
    "the model's folder": (".", Path.exists),
}


@pytest.mark.parametrize("kind", LINKED)
def test_what_is_not_a_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    location, make = LINKED[kind]
    make(tmp_path)
    assert code_of(model_with(location), tmp_path) == "external-data-linked"


def test_a_linked_folder_on_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "w.data").write_bytes(bytes(BYTES))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "sub").symlink_to(tmp_path / "elsewhere")
    assert code_of(model_with("sub/w.data"), tmp_path / "model") == "external-data-linked"


@pytest.mark.parametrize("location", ["w.data", "", "absent", "sub/w.data", "n" * 300, "sub\\w.data"])
def test_a_file_that_is_not_there_is_missing(tmp_path: Path, location: str) -> None:
    assert code_of(model_with(location), tmp_path) == "external-data-missing"


def test_a_name_that_is_not_text_is_missing(tmp_path: Path) -> None:
    damaged = model_with("w.data").SerializeToString().replace(b"w.data", b"\xff.data")
    assert code_of(onnx.ModelProto.FromString(damaged), tmp_path) == "external-data-missing"


@pytest.mark.parametrize(
    "fields",
    [
        {"offset": "1"},
        {"length": "17"},
        {"offset": "-1"},
        {"length": "-1"},
        {"offset": str(2**63)},
        {"offset": "9" * 5000},
        {"length": str(2**64)},
        {"offset": "²"},
        {"offset": "0x10"},
        {"length": "absent", "offset": "8"},
        {"length": "4", "offset": "8"},
    ],
    ids=lambda fields: ",".join(f"{key}={value[:12]}" for key, value in fields.items()),
)
def test_bytes_that_the_file_does_not_have_are_named(tmp_path: Path, fields: dict[str, str]) -> None:
    (tmp_path / "w.data").write_bytes(bytes(BYTES))
    assert code_of(model_with(**fields), tmp_path) == "external-data-truncated"


def test_no_length_means_what_the_shape_needs(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(bytes(BYTES))
    assert external.findings(model_with(length="absent"), tmp_path) == []


def test_loading_a_dangerous_model_is_an_error_that_names_tensor_and_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model_with("../secret").SerializeToString())
    with pytest.raises(BrokenModel, match=r"m\.onnx: tensor w: .*'\.\./secret'"):
        Model.load(path)


def hidden_places() -> dict[str, onnx.ModelProto]:
    """Models whose one external tensor lies somewhere that is easily overlooked."""
    bad = external_tensor("w", "../w.data")
    inner = helper.make_graph([], "inner", [], [], [bad])
    constant = helper.make_node("Constant", [], ["c"], value=bad)
    branch = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    mislabelled = helper.make_node("If", ["c"], ["y"], then_branch=inner)
    mislabelled.attribute[0].type = onnx.AttributeProto.INT
    listed = onnx.NodeProto(op_type="X", attribute=[onnx.AttributeProto(name="a", graphs=[inner])])
    many = onnx.NodeProto(op_type="X", attribute=[onnx.AttributeProto(name="a", tensors=[bad])])

    def model(*nodes: onnx.NodeProto) -> onnx.ModelProto:
        return helper.make_model(helper.make_graph(nodes, "g", [], []))

    places = {
        "attribute": model(constant),
        "list of tensors": model(many),
        "branch": model(branch),
        "list of graphs": model(listed),
        "mislabelled attribute": model(mislabelled),
        "function": model(),
        "branch in a function": model(),
        "sparse values": model(),
        "training": model(),
    }
    for place, node in (("function", constant), ("branch in a function", branch)):
        places[place].functions.append(helper.make_function("d", "f", [], [], [node], [helper.make_opsetid("", 20)]))
    places["sparse values"].graph.sparse_initializer.add().values.CopyFrom(bad)
    places["training"].training_info.add().algorithm.initializer.append(bad)
    return places


@pytest.mark.parametrize(("place", "model"), hidden_places().items(), ids=list(hidden_places()))
def test_a_tensor_is_found_wherever_it_hides(tmp_path: Path, place: str, model: onnx.ModelProto) -> None:
    assert code_of(model, tmp_path) == "external-data-outside", place


def test_one_finding_per_file_however_many_tensors_it_holds(tmp_path: Path) -> None:
    model = model_with("gone.data")
    model.graph.initializer.append(external_tensor("v", "gone.data"))
    model.graph.initializer.append(external_tensor("u", "lost.data"))
    assert [finding.where for finding in external.findings(model, tmp_path)] == ["tensor w", "tensor u"]
