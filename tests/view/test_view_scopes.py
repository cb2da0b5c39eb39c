from __future__ import annotations

import onnx_ir as ir
import pytest

from sardonyx.view.scopes import adopted, scope_of, trimmed


def node(name: str, **metadata: str) -> ir.Node:
    made = ir.Node("", "Conv", [], name=name)
    made.metadata_props.update({key.replace("__", "."): value for key, value in metadata.items()})
    return made


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("/features/features.0/conv/Conv", ("features", "0", "conv")),
        ("model/dense/MatMul", ("model", "dense")),
        ("model_1/conv;model_1/other/Conv", ("model_1",)),
        ("/Softmax", ()),
        ("Conv_12", None),
        ("", None),
        ("a//b/Conv", ("a", "b")),
    ],
)
def test_the_name_of_a_node_tells_its_scope(name: str, scope: tuple[str, ...] | None) -> None:
    assert scope_of(node(name)) == scope


def test_what_the_exporter_wrote_goes_before_the_name() -> None:
    written = node(
        "/wrong/Conv",
        pkg__torch__onnx__name_scopes="['', 'features', 'features.0', 'conv2d']",
        pkg__torch__onnx__class_hierarchy="['net.Net', 'torch.nn.container.Sequential', 'torch.nn.Conv2d', 'aten.conv2d']",
    )
    assert scope_of(written) == ("features: Sequential", "0: Conv2d")


def test_a_namespace_is_read_where_there_is_no_list() -> None:
    found = scope_of(node("n", namespace=": net.Net/layer1: torch.nn.Sequential/layer1.0: net.Block/conv: aten.conv2d"))
    assert found == ("layer1: Sequential", "0: Block")


@pytest.mark.parametrize("text", ["[", "__import__('os')", "{}", "(" * 400])
def test_text_that_is_no_list_is_not_run_and_not_used(text: str) -> None:
    assert scope_of(node("/a/Conv", pkg__torch__onnx__name_scopes=text)) == ("a",)


def test_levels_that_all_share_are_left_out() -> None:
    assert trimmed([("net", "a"), ("net", "b", "c")]) == [("a",), ("b", "c")]
    assert trimmed([("net",), ("net", "a")]) == [(), ("a",)]
    assert trimmed([]) == []


def test_a_node_without_a_scope_is_where_its_neighbours_are() -> None:
    scopes = [("net", "a"), None, None, ("net", "b"), ()]
    neighbours = [[1], [0, 2], [1, 3], [2], []]
    assert adopted(scopes, neighbours) == [("net", "a"), ("net", "a"), ("net",), ("net", "b"), ()]
    assert adopted([None, None, ()], [[1], [0], []]) == [(), (), ()]
