"""MobileNetV2 in PyTorch, laid out so that torchvision's published weights fit by name."""

from __future__ import annotations

from torch import Tensor, nn

# Widening, channels, how often, and the stride of the first.
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def _unit(inside: int, outside: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outside), nn.ReLU6())


class Block(nn.Module):
    """Widen, filter each channel, narrow; the input is added where the shapes allow it."""

    def __init__(self, inside: int, outside: int, stride: int, widening: int) -> None:
        super().__init__()
        wide = inside * widening
        first = [_unit(inside, wide)] if widening > 1 else []
        last = [nn.Conv2d(wide, outside, 1, bias=False), nn.BatchNorm2d(outside)]
        self.conv = nn.Sequential(*first, _unit(wide, wide, 3, stride, groups=wide), *last)
        self.adds = stride == 1 and inside == outside

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):
    """Pictures of 224 by 224, normalised as ImageNet's, to the logits of 1,000 classes."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_unit(3, 32, 3, 2)]
        inside = 32
        for widening, outside, count, stride in BLOCKS:
            for index in range(count):
                layers.append(Block(inside, outside, 1 if index else stride, widening))
                inside = outside
        self.features = nn.Sequential(*layers, _unit(inside, 1280))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, image: Tensor) -> Tensor:
        return self.classifier(self.features(image).mean((2, 3)))
