"""Our passes on real models: fewer nodes, the same answers on several inputs and sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

import real
from halves import split
from real import RealModel
from sardonyx.deadline import Deadline
from sardonyx.model import Model
from sardonyx.optimize.candidates._form import Way
from sardonyx.optimize.candidates.sardonyx import make as ours
from sardonyx.optimize.candidates.sardonyx_alone import make as alone
from sardonyx.optimize.entry import count_nodes
from sardonyx.optimize.gate import Gate
from sardonyx.optimize.making import make
from sardonyx.run.inputs import prepare

# The nodes that are left at most: what was measured, so that a pass which stops working is seen.
NODES = {
    "silero_vad/silero_vad": 112,
    "silero_vad/silero_vad_16k_op15": 58,
    "magika/model": 91,
    "rapidocr_onnxruntime/ch_PP-OCRv4_det_infer": 201,
    "rapidocr_onnxruntime/ch_ppocr_mobile_v2.0_cls_infer": 143,
    "basic_pitch/nmp": 187,
}
MODELS = [item for item in real.ONNX if str(item) in NODES]


@pytest.mark.heavy
@pytest.mark.parametrize("model", split(MODELS, "silero_vad/silero_vad_16k_op15", ids=[*map(str, MODELS)]))
def test_real_models_keep_their_answers_and_lose_nodes(model: RealModel, tmp_path: Path) -> None:
    signature = Model.load(model.path).signature
    given = prepare(signature, model.inputs, data=None, sizes=model.sizes, seed=0).arrays
    gate = Gate(model.path, signature, [given] if model.inputs or model.sizes else None, 0)
    # onnxscript's optimizer makes NaN of silence in basic-pitch, which is what the gate and the second candidate are for.
    ways = (Way("ours", ours, None, "portable"), Way("alone", alone, None, "portable"))
    chosen = ways["basic_pitch" in model.file]
    (entry,) = make([chosen], model.path, tmp_path, "portable", Deadline(300), in_child=False)
    assert entry.path is not None, entry.reason
    assert gate.judge(entry.path)[1] == ""
    assert count_nodes(Model.load(entry.path)) <= NODES[str(model)]
