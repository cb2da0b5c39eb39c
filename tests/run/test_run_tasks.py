"""`run --task`: a picture in, classes or boxes out, with the processing outside of the graph and inside of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import detections
import sardonyx
from detections import HEIGHT, THINGS, VISIBLE, WAYS, WIDTH
from sardonyx import cli
from sardonyx.errors import BadData, UsageError
from sardonyx.model import Model
from sardonyx.report import Report
from sardonyx.run.labels import KEY
from sardonyx.signature import Array

Command = Callable[..., tuple[int, str, str]]

# The mean of each channel is the logit of its class, ten times over, so that a coloured picture has a clear answer.
COLOURS = """<ir_version: 8, opset_import: ["" : 17]>
colours (float[batch,3,8,8] x) => (float[batch,3] y) {{
    ten = Constant<value = float {{10.0}}>()
    means = ReduceMean<axes = [2, 3], keepdims = 0>(x)
    high = Mul(means, ten)
    y = {last}(high) }}"""
NAMES = ["red", "green", "blue"]
# Twice as large as the detector's input, with margins of 16 to the left and the right once it is fitted in.
PICTURE = 2 * (WIDTH - 32), 2 * HEIGHT


def colours(last: str = "Identity") -> Model:
    return Model.from_text(COLOURS.format(last=last))


def detector(written: detections.Written) -> Model:
    """A model that sees the written boxes in every picture."""
    outputs = [onnx.numpy_helper.from_array(array, name) for name, array in written.outputs.items()]
    nodes = [onnx.helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in outputs]
    types = [onnx.helper.make_tensor_value_info(item.name, item.data_type, list(item.dims)) for item in outputs]
    image = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, HEIGHT, WIDTH])
    graph = onnx.helper.make_graph(nodes, "detector", [image], types)
    return Model.from_proto(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    )


def photo(seed: int = 0, size: tuple[int, int] = (40, 30)) -> Array:
    """A greenish picture with detail in it."""
    pixels = np.random.default_rng(seed).integers(0, 120, (size[1], size[0], 3), dtype=np.uint8)
    pixels[:, :, 1] += 100
    return pixels


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`command(words)` runs `sardonyx run` in a folder with models, a photo and labels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    colours().save("colours.onnx")
    detector(detections.yolov8()).save("detector.onnx")
    Image.fromarray(photo()).save("photo.png")
    Image.fromarray(photo(size=PICTURE)).save("scene.jpg")
    Path("labels.txt").write_text("red\ngreen\nblue\n")

    def call(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sardonyx", "run", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return call


def classified(model: Model, pixels: Array, **options: object) -> Report:
    return sardonyx.run(model, {"x": pixels}, task="classify", **options)  # type: ignore[arg-type]


def test_the_command_classifies_a_photo_and_draws_bars(command: Command) -> None:
    code, out, err = command("colours.onnx", "--input", "x=photo.png", "--task", "classify", "--labels", "labels.txt")
    assert code == 0, err
    assert "green" in out
    assert "█" in out
    assert "40x30 cut to 8x8, scaled to 0..1" in out
    assert "softmax of logits" in out


def test_classes_are_in_the_json_the_best_first(command: Command) -> None:
    words = ("colours.onnx", "--input", "x=photo.png", "--task", "classify", "--labels", "labels.txt", "--top", "2")
    code, out, err = command(*words, "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["classes"][0]["label"] == "green"
    assert len(answer["classes"]) == 2
    assert answer["classes"][0]["score"] > answer["classes"][1]["score"] > 0
    assert answer["outputs"][0]["shape"] == [1, 3]


@pytest.mark.parametrize("last", ["Identity", "Softmax", "LogSoftmax"])
def test_scores_are_the_same_whether_the_model_gives_logits_or_probabilities(last: str) -> None:
    told, wanted = (classified(colours(kind), photo())["classes"] for kind in (last, "Identity"))
    assert [item["index"] for item in told] == [item["index"] for item in wanted]
    assert [item["score"] for item in told] == pytest.approx([item["score"] for item in wanted], rel=1e-5)
    assert sum(item["score"] for item in told) == pytest.approx(1, abs=1e-5)


def test_classes_that_do_not_exclude_each_other_stay_as_they_are() -> None:
    report = classified(colours("Sigmoid"), photo())
    values = report.artifacts["outputs"]["y"][0]
    assert [item["score"] for item in report["classes"]] == pytest.approx(sorted(values.tolist(), reverse=True))


def test_the_models_own_labels_are_used_and_a_files_come_first(tmp_path: Path) -> None:
    model = colours()
    model.ir.metadata_props["names"] = "{0: 'rot', 1: 'grün', 2: 'blau'}"
    assert classified(model, photo())["classes"][0]["label"] == "grün"
    (tmp_path / "labels.json").write_text(json.dumps({"0": ["n1", "red"], "1": ["n2", "green"], "2": ["n3", "blue"]}))
    assert classified(model, photo(), labels=tmp_path / "labels.json")["classes"][0]["label"] == "green"


PREPARED = [
    ("imagenet", "stretch"), ("imagenet", "fit"), ("imagenet", "crop"), ("unit", "crop"), ("minus-one", "crop"),
    ("0.5,0.25", "crop"), ("0.1,0.2,0.3,0.4,0.5,0.6", "crop"),
]  # fmt: skip


@pytest.mark.parametrize(("normalize", "resize"), PREPARED)
def test_a_classifier_answers_alike_with_its_processing_inside(tmp_path: Path, normalize: str, resize: str) -> None:
    path = tmp_path / "whole.onnx"
    words = {"normalize": normalize, "resize": resize, "labels": NAMES}
    outside = classified(colours(), photo(), embed_preprocessing=path, **words)
    assert outside.findings == ()
    for seed in range(2):
        picture = photo(seed, size=(33 + 57 * seed, 61))
        inside = sardonyx.run(path, {"x": picture}, task="classify")
        wanted = classified(colours(), picture, **words)
        assert [item["label"] for item in inside["classes"]] == [item["label"] for item in wanted["classes"]]
        # One level of 255 in a hundredth of the pixels: its share of the mean, times ten, over the smallest deviation.
        assert np.allclose(
            [item["score"] for item in inside["classes"]], [item["score"] for item in wanted["classes"]], atol=2e-3
        )


def test_a_detector_finds_what_is_where_and_draws_it(command: Command) -> None:
    words = ("detector.onnx", "--input", "x=scene.jpg", "--task", "detect", "--labels", "labels.txt", "-o", "drawn.png")
    code, out, err = command(*words, "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["head"] == "yolov8"
    assert [item["label"] for item in answer["boxes"]] == ["blue", "red"]
    # The picture is twice as large as it lies in the input, where it begins at 16: (10 - 16) x 2 is outside, so 0.
    assert answer["boxes"][0]["box"] == pytest.approx([0, 24, 48, 100], abs=0.01)
    with Image.open("drawn.png") as drawn:
        assert drawn.size[0] * PICTURE[1] == drawn.size[1] * PICTURE[0]
        scale = drawn.size[0] // PICTURE[0]
        assert np.asarray(drawn.convert("RGB"))[60 * scale, 1].tolist() == _ink(2)


def _ink(index: int) -> list[int]:
    from sardonyx.run.drawing import colour

    return list(colour(index))


def test_nothing_above_the_score_is_said(command: Command) -> None:
    code, out, _ = command("detector.onnx", "--input", "x=scene.jpg", "--task", "detect", "--score", "0.95")
    assert code == 0
    assert "no box scores above 0.95" in out


LAID_OUT = [*((way, "fit") for way in WAYS), ("yolov8", "stretch"), ("yolov8", "crop")]


@pytest.mark.parametrize(("way", "resize"), LAID_OUT)
def test_a_detector_answers_alike_with_its_processing_inside(tmp_path: Path, way: str, resize: str) -> None:
    path, written = tmp_path / "whole.onnx", WAYS[way]()
    outside = sardonyx.run(
        detector(written),
        {"x": photo(size=PICTURE)},
        task="detect",
        resize=resize,
        embed_preprocessing=path,
        labels=NAMES,
    )
    assert outside.findings == ()
    assert [item["index"] for item in outside["boxes"]] == THINGS[VISIBLE, 5].tolist()
    for size in ((300, 40), (50, 500)):
        inside = sardonyx.run(path, {"x": photo(size=size)}, task="detect")
        wanted = sardonyx.run(detector(written), {"x": photo(size=size)}, task="detect", resize=resize, labels=NAMES)
        assert [item["label"] for item in inside["boxes"]] == [item["label"] for item in wanted["boxes"]]
        # Float32 arithmetic on coordinates of at most 500 times a scale of 10, rounded to hundredths.
        for first, second in zip(inside["boxes"], wanted["boxes"], strict=True):
            assert first["box"] == pytest.approx(second["box"], abs=0.02)
            assert first["score"] == pytest.approx(second["score"], abs=1e-6)


def test_a_model_with_its_processing_inside_needs_standard_operators_alone(tmp_path: Path) -> None:
    path = tmp_path / "whole.onnx"
    sardonyx.run(detector(detections.yolov5()), {"x": photo()}, task="detect", labels=NAMES, embed_preprocessing=path)
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    assert {item.domain for item in proto.opset_import} <= {"", "ai.onnx"}
    model = Model.load(path)
    assert str(model.signature.inputs[0]) == "x=uint8[height,width,3]"
    assert [spec.name for spec in model.signature.outputs] == ["boxes", "scores", "labels"]
    assert json.loads(model.ir.metadata_props[KEY]) == NAMES
    assert model.history[-1].options["embed_preprocessing"]["head"] == "yolov5"


def test_a_grey_model_that_takes_height_and_width_last_or_first_is_served_alike(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]> g ({shape} x) => (float[1,2] y) {{
        m = ReduceMean<axes = {axes}, keepdims = 0>(x)  n = Neg(m)  flat = Constant<value = int64[2] {{1, 1}}>()
        a = Reshape(m, flat)  b = Reshape(n, flat)  y = Concat<axis = 1>(a, b) }}"""
    shapes = {
        "float[1,12,10,1]": "[1, 2, 3]",
        "float[12,10,1]": "[0, 1, 2]",
        "float[1,12,10]": "[1, 2]",
        "float16[1,1,12,10]": "[1, 2, 3]",
    }
    answers = []
    for index, (shape, axes) in enumerate(shapes.items()):
        cast = text.replace("(x)", "(w)").replace("m = ", "w = Cast<to = 1>(x)  m = ", 1)
        model, path = Model.from_text(cast.format(shape=shape, axes=axes)), tmp_path / f"{index}.onnx"
        grey = photo()[:, :, 0]
        outside = sardonyx.run(model, {"x": grey}, task="classify", embed_preprocessing=path)
        assert outside["embedded"]["differences"]["score"] < 2e-3
        answers.append([item["score"] for item in outside["classes"]])
    assert np.allclose(answers, answers[0], atol=1e-3)


BAD = {
    "not an image": (("colours.onnx", "--input", "x=labels.txt", "--task", "classify"), "bad-data", "not an image"),
    "no picture": (("colours.onnx", "--task", "classify"), "usage", "none is given"),
    "an array file": (("colours.onnx", "--input", "x=[1]", "--task", "classify"), "usage", "none is given"),
    "too few labels": (
        ("colours.onnx", "--input", "x=photo.png", "--task", "classify", "--labels", "two.txt"),
        "bad-data",
        "2 labels, and the model tells 3 classes",
    ),
    "too few labels for a detector": (
        ("detector.onnx", "--input", "x=scene.jpg", "--task", "detect", "--labels", "two.txt"), "bad-data", "2 labels",
    ),
    "no labels file": (
        ("colours.onnx", "--input", "x=photo.png", "--task", "classify", "--labels", "gone.txt"), "not-found", "gone.txt",
    ),
    "an empty labels file": (
        ("colours.onnx", "--input", "x=photo.png", "--task", "classify", "--labels", "empty.txt"), "bad-data", "no labels",
    ),
    "a task nobody knows": (("colours.onnx", "--task", "guess"), "usage", "no task 'guess'"),
    "an option without its task": (("colours.onnx", "--labels", "labels.txt"), "usage", "--labels belongs to a task"),
    "a wrong normalisation": (
        ("colours.onnx", "--input", "x=photo.png", "--task", "classify", "--normalize", "1,0"), "usage", "no normalisation",
    ),
    "a wrong resize": (("colours.onnx", "--input", "x=photo.png", "--task", "classify", "--resize", "x"), "usage", "no resize"),
    "a classifier that should detect": (
        ("colours.onnx", "--input", "x=photo.png", "--task", "detect"), "bad-data", "no detector",
    ),
    "a detector that should classify": (
        ("detector.onnx", "--input", "x=scene.jpg", "--task", "classify"), "bad-data", "no output is one score for each class",
    ),
    "a head that does not fit": (
        ("colours.onnx", "--input", "x=photo.png", "--task", "detect", "--head", "ssd"), "bad-data", "do not fit the head ssd",
    ),
    "a picture that cannot be written": (
        ("detector.onnx", "--input", "x=scene.jpg", "--task", "detect", "-o", "drawn.txt"), "usage", "drawn.txt is no picture",
    ),
    "five channels": (("five.onnx", "--input", "x=photo.png", "--task", "classify"), "bad-data", "does not look like an image"),
    "a score that is no share": (
        ("detector.onnx", "--input", "x=scene.jpg", "--task", "detect", "--score", "25"), "usage", "--score 25",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_named_and_exits_2(command: Command, what: str) -> None:
    words, name, said = BAD[what]
    Path("two.txt").write_text("red\ngreen\n")
    Path("empty.txt").write_text("\n")
    five = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,5,8,8] x) => (float[1,5,8,8] y) { y = Identity(x) }"""
    Model.from_text(five).save("five.onnx")
    code, out, _ = command(*words, "--json")
    assert code == 2
    error = json.loads(out)["error"]
    assert error["code"] == name
    assert said in error["message"]
    assert error["hint"]


def test_a_model_with_its_processing_inside_refuses_what_it_does_already(tmp_path: Path) -> None:
    path = tmp_path / "whole.onnx"
    classified(colours(), photo(), embed_preprocessing=path)
    for options in ({"normalize": "unit"}, {"embed_preprocessing": tmp_path / "again.onnx"}):
        with pytest.raises(UsageError):
            sardonyx.run(path, {"x": photo()}, task="classify", **options)  # type: ignore[arg-type]
    with pytest.raises(BadData, match="has --task classify inside"):
        sardonyx.run(path, {"x": photo()}, task="detect")


def test_a_difference_that_embedding_makes_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sardonyx.run import embedding

    monkeypatch.setattr(embedding, "_rounded", lambda values: values * 0.5)
    report = classified(colours(), photo(), embed_preprocessing=tmp_path / "whole.onnx")
    assert [finding.code for finding in report.findings] == ["embedded-differs"]


def test_pixels_that_are_no_picture_are_refused() -> None:
    with pytest.raises(BadData, match="grey, and the model takes 3 channels"):
        classified(colours(), photo()[:, :, 0])
    with pytest.raises(UsageError, match="none is given"):
        classified(colours(), photo().astype(np.float32))
