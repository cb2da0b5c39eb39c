import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sardonyx
from bundling import by_hand
from sardonyx import cli
from sardonyx.errors import BrokenModel, InputError, OutputError, RuntimeRefused, UsageError
from sardonyx.model import Model

Command = Callable[..., tuple[int, str, str]]

SOFT = """<ir_version: 8, opset_import: ["" : 17]>
soft (float[batch,3] x, int64 sr) => (float[batch,3] y, int64 rate) { y = Softmax(x)  rate = Identity(sr) }"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two inputs; two outputs, of which one has a name with a slash and a colon."""
    built = Model.from_text(SOFT)
    built.ir.graph.outputs[0].name = "a/soft:0"
    return built.save(tmp_path / "soft.onnx")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`command(words)` runs `sardonyx run` and gives its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sardonyx", "run", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return call


def test_arrays_go_in_and_come_out(model: Path) -> None:
    report = sardonyx.run(model, {"x": np.zeros((2, 3), np.float32), "sr": 5})
    assert report.ok
    assert report.verdict == "ok"
    assert np.allclose(report.artifacts["outputs"]["a/soft:0"], 1 / 3)
    assert report["outputs"][1] == {
        "name": "rate", "dtype": "int64", "shape": [], "min": 5, "mean": 5.0, "max": 5, "nan": 0, "inf": 0, "first": [5],
    }  # fmt: skip
    assert report["seconds"] > 0
    assert "generated" not in report.summary


def test_a_model_in_memory_runs_too() -> None:
    assert sardonyx.run(Model.from_text(SOFT), {"sr": 1}).artifacts["outputs"]["y"].shape == (1, 3)


def test_a_bundle_stands_for_its_model(tmp_path: Path, command: Command) -> None:
    by_hand(tmp_path / "bundle", Model.from_text(SOFT))
    assert sardonyx.run(tmp_path / "bundle", {"sr": 1}).artifacts["outputs"]["y"].shape == (1, 3)
    code, stdout, _ = command("bundle", "--input", "sr=1", "--json")
    assert (code, json.loads(stdout)["verdict"]) == (0, "ok")
    (tmp_path / "bundle" / "model.onnx").write_bytes(b"another model")
    with pytest.raises(BrokenModel, match="not the file that the bundle was made with"):
        sardonyx.run(tmp_path / "bundle")
    (tmp_path / "bundle" / "bundle.json").write_text("{}")
    with pytest.raises(InputError, match="not the record of a bundle"):
        sardonyx.run(tmp_path / "bundle")


def test_a_table_goes_in_and_a_label_needs_data(model: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b,c,y\n0,0,0,1\n")
    report = sardonyx.run(model, {"sr": 5}, data=tmp_path / "rows.csv", label="y")
    assert report["inputs"][0]["origin"] == f"{tmp_path / 'rows.csv'}: columns a, b, c"
    assert np.allclose(report.artifacts["outputs"]["a/soft:0"], 1 / 3)
    with pytest.raises(UsageError, match="there is no data"):
        sardonyx.run(model, label="y")


def test_a_model_without_inputs_runs() -> None:
    text = (
        """<ir_version: 8, opset_import: ["" : 17]> g () => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }"""
    )
    report = sardonyx.run(Model.from_text(text))
    assert report.artifacts["outputs"]["y"].tolist() == [1, 2]
    assert [table.title for table in report.tables] == ["outputs"]


def test_generated_inputs_are_never_silent(model: Path) -> None:
    report = sardonyx.run(model, {"sr": 5}, sizes={"batch": 4}, seed=7)
    assert "generated: x" in report.summary
    assert report["inputs"][0] == {"name": "x", "dtype": "float32", "shape": [4, 3], "origin": "generated, seed 7"}
    text = report.to_text()
    assert "float32[4,3]" in text
    assert "generated, seed 7" in text


def test_outputs_of_any_name_are_written_and_come_back(model: Path, tmp_path: Path) -> None:
    report = sardonyx.run(model, {"sr": 5}, output=tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as written:
        assert sorted(written.files) == ["a/soft:0", "rate"]
        assert np.array_equal(written["a/soft:0"], report.artifacts["outputs"]["a/soft:0"])
    assert report["path"] == str(tmp_path / "out.npz")


def test_a_place_that_cannot_be_written_is_refused_before_the_run(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not end in \.npz"):
        sardonyx.run(model, output=tmp_path / "out.npy")
    with pytest.raises(OutputError, match="nowhere"):
        sardonyx.run(tmp_path / "no_model.onnx", output=tmp_path / "nowhere" / "out.npz")


def test_values_that_are_not_finite_are_a_warning(model: Path) -> None:
    report = sardonyx.run(model, {"x": np.full((1, 3), np.nan), "sr": 1})
    (finding,) = report.findings
    assert (finding.code, finding.where) == ("not-finite", "output a/soft:0")
    assert report.ok


def test_outputs_that_do_not_fit_an_npz_are_a_warning(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (seq(float[1]) y, float[2] "y/0") {
        y = SplitToSequence(x)  "y/0" = Identity(x) }""".replace('"y/0"', "z")
    built = Model.from_text(text)
    built.ir.graph.outputs[1].name = "y/0"
    report = sardonyx.run(built, output=tmp_path / "out.npz")
    assert [finding.code for finding in report.findings] == ["not-written"]


def test_a_run_that_fails_on_sizes_nobody_gave_says_so() -> None:
    text = (
        """<ir_version: 8, opset_import: ["" : 17]> g (float[n,?] x, float[7] w) => (float[n,7] y) { y = Add(x, w) }"""
    )
    with pytest.raises(RuntimeRefused) as caught:
        sardonyx.run(Model.from_text(text), {"w": np.ones(7, np.float32)})
    assert "x=float32[1,64]" in caught.value.hint
    assert sardonyx.run(Model.from_text(text), {"x": "float32[2,7]"}).ok


def test_the_command_takes_files_and_literals_and_gives_json(model: Path, command: Command) -> None:
    np.save("x.npy", np.zeros((2, 3)))
    code, out, err = command(model, "--input", "x=x.npy", "--input", "sr=16000", "--threads", "1", "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert (answer["verb"], answer["ok"], answer["verdict"], answer["threads"]) == ("run", True, "ok", 1)
    assert [item["name"] for item in answer["outputs"]] == ["a/soft:0", "rate"]
    assert answer["outputs"][1]["first"] == [16000]


def test_the_command_draws_tables(model: Path, command: Command) -> None:
    code, out, err = command(model, "--input", "x=[[1,2,3]]", "-o", "out.npz")
    assert code == 0, err
    for word in ("inputs", "outputs", "a/soft:0", "0.09", "generated: sr", "written to out.npz"):
        assert word in out
    assert Path("out.npz").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--input", "x=[1]", "--input", "q=1"],
            ["x: shape [1], the model takes [batch,3]", "q: the model has no such input"],
        ),
        (["--input", "x"], ["--input x has no name"]),
        (["--input", "x=1", "--input", "x=2"], ["gives x twice"]),
        (["--provider", "tpu"], ["'tpu' is not available"]),
        (["--threads", "0"], ["0 threads"]),
        (["--size", "height=3"], ["no input has a dynamic dimension height"]),
        (["--seed", "-1"], ["the seed cannot be -1"]),
        (["--data", "gone.npz"], ["gone.npz does not exist"]),
        (["-o", "out.txt"], ["does not end in .npz"]),
    ],
)
def test_the_command_names_what_is_wrong(model: Path, command: Command, words: list[str], said: list[str]) -> None:
    code, out, err = command(model, *words)
    assert (code, out) == (2, "")
    assert err.startswith("error[")
    assert "hint: " in err
    for text in said:
        assert text in err


def test_an_image_without_pillow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sardonyx import registry
    from sardonyx.errors import MissingExtra

    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,h,w] x) => (float[1,3,h,w] y) { y = Identity(x) }"""
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n")
    monkeypatch.setitem(registry.EXTRAS, "vision", ("no_such_package",))
    registry.installed.cache_clear()
    try:
        with pytest.raises(MissingExtra, match="vision"):
            sardonyx.run(Model.from_text(text), {"x": tmp_path / "a.png"})
    finally:
        registry.installed.cache_clear()


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = "import sardonyx, sardonyx.samples, sardonyx.images, sardonyx.arrays, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"onnxruntime", "PIL", "safetensors", "torch"} & set(loaded)
