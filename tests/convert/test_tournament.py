"""The tournament on real PyTorch models: the right route wins, wrong ones get a counterexample, nothing is written in vain."""

import numpy as np
import pytest

import faulty_runtime
import sardonyx
from sardonyx.errors import MissingExtra, NotFound, SourceFailed, Untrusted, UsageError
from sardonyx.model import Model
from sardonyx.run.session import Session, stored_level

pytestmark = pytest.mark.heavy

BRANCH = """
import torch

class Branch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        if x.sum() > 0:
            return self.linear(x)
        return self.linear(-x) + 1

def raises():
    raise RuntimeError("no such backbone")

def restless():
    torch.manual_seed(__import__("time").time_ns() % 2**31)
    return torch.nn.Linear(4, 3)
"""
SPEC = "x=float32[batch,4]"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "branch.py").write_text(BRANCH)
    return tmp_path


@pytest.fixture(scope="module")
def branch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("branch")
    (folder / "branch.py").write_text(BRANCH)
    return folder, sardonyx.convert(f"{folder}/branch.py:Branch", folder / "m.onnx", inputs=[SPEC])


@pytest.mark.rest
def test_the_route_that_keeps_the_branch_wins(branch):
    folder, report = branch
    assert (report.verdict, report["route"]) == ("agrees", "script")
    assert {c["route"]: c["verdict"] for c in report["candidates"]} == {
        "dynamo": "refused",
        "script": "agrees",
        "trace": "wrong",
    }
    assert Model.load(folder / "m.onnx").signature.inputs[0].shape == ("batch", 4)


def test_a_refusal_names_the_line_and_the_route_that_would_take_it(branch):
    _, report = branch
    reason = next(c["reason"] for c in report["candidates"] if c["route"] == "dynamo")
    assert "branch.py:10" in reason
    assert "script" in reason
    assert "\n" not in reason


def test_a_counterexample_is_one_row_on_which_the_loser_is_really_wrong(branch):
    folder, report = branch
    path = next(c["counterexample"] for c in report["candidates"] if c["route"] == "trace")
    proof = np.load(path)
    assert proof["x"].shape == (1, 4)
    (answer,) = Session(folder / "m.onnx")({"x": proof["x"]}).values()
    np.testing.assert_allclose(answer, proof["expected.output"], rtol=1e-5)
    assert not np.allclose(proof["exported.output"], proof["expected.output"], rtol=1e-2)


def test_the_history_says_how_the_model_was_made(branch):
    folder, _ = branch
    (step,) = Model.load(folder / "m.onnx").history
    assert (step.verb, step.options["route"]) == ("convert", "script")


@pytest.mark.rest
def test_where_no_route_agrees_no_model_is_written(folder):
    report = sardonyx.convert(f"{folder}/branch.py:Branch", folder / "m.onnx", inputs=[SPEC], route="trace")
    assert (report.verdict, report.ok) == ("no-route-agrees", False)
    assert not (folder / "m.onnx").exists()


def test_a_factory_that_raises_is_named_with_its_line(folder):
    with pytest.raises(SourceFailed, match=r"branch\.py:15: RuntimeError: no such backbone"):
        sardonyx.convert(f"{folder}/branch.py:raises", folder / "m.onnx", inputs=[SPEC])
    assert list(folder.glob("m*")) == []


@pytest.mark.rest
def test_a_factory_that_builds_another_model_each_time_is_told_apart_from_a_bad_export(folder):
    with pytest.raises(SourceFailed, match="another model each time"):
        sardonyx.convert(f"{folder}/branch.py:restless", folder / "m.onnx", inputs=[SPEC], route="trace")


@pytest.mark.rest
def test_wrong_example_shapes_are_named_with_the_line_that_fails(folder):
    with pytest.raises(SourceFailed, match=r"fails on the example inputs at .*branch\.py:11"):
        sardonyx.convert(f"{folder}/branch.py:Branch", folder / "m.onnx", inputs=["x=float32[batch,5]"])


def test_an_unknown_route_lists_the_routes(folder):
    with pytest.raises(UsageError) as caught:
        sardonyx.convert(f"{folder}/branch.py:Branch", folder / "m.onnx", inputs=[SPEC], route="magic")
    assert "dynamo" in caught.value.hint


@pytest.mark.rest
def test_a_hanging_route_is_ended_and_listed(folder):
    (folder / "branch.py").write_text(
        BRANCH.replace("x.sum() > 0", "not torch.jit.is_tracing() or __import__('time').sleep(600)")
    )
    report = sardonyx.convert(f"{folder}/branch.py:Branch", folder / "m.onnx", inputs=[SPEC], route="trace", timeout=20)
    assert "no answer within 20 s" in report["candidates"][0]["reason"]
    assert not (folder / "m.onnx").exists()


def test_a_live_module_is_converted_in_place(tmp_path):
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)).train()
    report = sardonyx.convert(module, tmp_path / "m.onnx", inputs=["input=float32[batch,4]"], output_names=["score"])
    assert report["outputs"][0]["name"] == "score"
    assert module.training, "the user's object is left as it was"
    example = torch.randn(3, 4)
    (score,) = Session(tmp_path / "m.onnx")({"input": example.numpy()}).values()
    np.testing.assert_allclose(score, module.eval()(example).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.rest
def test_an_export_that_the_runtimes_optimiser_breaks_is_kept_at_a_lower_level(tmp_path):
    import torch

    class Product(torch.nn.Module):
        def forward(self, w, x):
            return w.T @ x

    report = sardonyx.convert(Product(), tmp_path / "m.onnx", inputs=["w=float32[3,2]", "x=float32[3]"])
    assert report.verdict == "agrees"
    (finding,) = [item for item in report["findings"] if item["code"] == "runtime-optimizer"]
    assert "ORT_ENABLE_BASIC" in finding["hint"]
    model = Model.load(tmp_path / "m.onnx")
    assert stored_level(model) == "basic"
    (answer,) = Session(model)(faulty_runtime.INPUTS).values()
    assert answer.tolist() == faulty_runtime.ANSWER


DECIDES = """<ir_version: 10, opset_import: ["": 18]> g (float[batch,2] x) => (float[batch,2] y)
<float limit = {LIMIT}, float two = {2}> {
    s = ReduceSum<keepdims = 0>(x) t = Sin(s) far = Greater(t, limit)
    y = If(far) <then_branch = a () => (float[batch,2] p) { p = Mul(x, two) },
                 else_branch = b () => (float[batch,2] q) { q = Add(x, two) }>
}"""


@pytest.mark.rest
@pytest.mark.parametrize(("limit", "verdict", "untaken"), [("0.5", "agrees", []), ("1.5", "partial", ["y"])])
def test_a_branch_of_a_graph_that_no_probe_takes_makes_it_partial(tmp_path, limit, verdict, untaken):
    """No sine is above one."""
    source = Model.from_text(DECIDES.replace("LIMIT", limit)).save(tmp_path / "decides.onnx")
    report = sardonyx.convert(source, tmp_path / "m.onnx")
    assert report.verdict == verdict
    assert [finding["where"] for finding in report["findings"] if finding["code"] == "unreached"] == untaken


def test_a_missing_source_is_named(tmp_path):
    with pytest.raises(NotFound, match="nowhere"):
        sardonyx.convert(tmp_path / "nowhere.pt", tmp_path / "m.onnx")


def test_a_pickle_needs_trust(tmp_path):
    import pickle

    from sklearn.linear_model import LinearRegression

    (tmp_path / "m.pkl").write_bytes(pickle.dumps(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])))
    with pytest.raises(Untrusted, match="runs whatever code"):
        sardonyx.convert(tmp_path / "m.pkl", tmp_path / "m.onnx")


def test_a_missing_extra_says_what_to_install(folder, monkeypatch):
    from sardonyx import registry

    monkeypatch.setitem(registry.EXTRAS, "torch", ("a_module_that_is_not_there",))
    registry.installed.cache_clear()
    try:
        with pytest.raises(MissingExtra) as caught:
            sardonyx.convert(f"{folder}/branch.py:Branch", folder / "m.onnx", inputs=[SPEC])
    finally:
        registry.installed.cache_clear()
    assert caught.value.hint == "pip install 'sardonyx[torch]'"
