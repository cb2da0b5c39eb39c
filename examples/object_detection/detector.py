"""A small detector in the manner of YOLOv8: three grids, no anchors, no objectness; `[batch, 4+10, 84]` out."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10
STRIDES = (8, 16, 32)
# Which grid finds a digit: the first whose limit its size is below.
LIMITS = (22, 30, 1e9)


def _unit(inside: int, outside: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU())


class Detector(nn.Module):
    """Centre, size and class scores of every cell, in pixels of a picture of 64 by 64."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_unit(3, 12, 2), _unit(12, 24, 2))
        widths = (24, 48, 64, 64)
        self.stages = nn.ModuleList(
            nn.Sequential(_unit(inside, outside, 2), _unit(outside, outside)) for inside, outside in pairwise(widths)
        )
        self.heads = nn.ModuleList(nn.Conv2d(width, 4 + CLASSES, 1) for width in widths[1:])
        for head in self.heads:
            nn.init.constant_(head.bias[4:], -4.0)  # nothing is the likeliest at first
        cells = [_cells(stride) for stride in STRIDES]
        self.register_buffer("centres", torch.cat([centre for centre, _ in cells], dim=1))
        self.register_buffer("strides", torch.cat([stride for _, stride in cells], dim=1))

    def raw(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """The four sides from each cell's centre, in pixels, and the logits of the classes."""
        x, rows = self.stem(image), []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            rows.append(head(x).flatten(2))
        values = torch.cat(rows, dim=2)
        return functional.softplus(values[:, :4]) * self.strides, values[:, 4:]

    def forward(self, image: Tensor) -> Tensor:
        sides, logits = self.raw(image)
        low, high = self.centres - sides[:, :2], self.centres + sides[:, 2:]
        return torch.cat([(low + high) / 2, high - low, logits.sigmoid()], dim=1)


def _cells(stride: int) -> tuple[Tensor, Tensor]:
    count = 64 // stride
    down, across = torch.meshgrid(torch.arange(count), torch.arange(count), indexing="ij")
    centres = (torch.stack([across.flatten(), down.flatten()]) + 0.5) * stride
    return centres, torch.full((1, count * count), float(stride))


def targets(model: Detector, rows: Tensor) -> tuple[Tensor, Tensor]:
    """For each cell the box it should find, as sides, and the class; -1 where there is nothing."""
    count, cells = rows.shape[0], model.centres.shape[1]
    sides, kinds = torch.zeros(count, 4, cells), torch.full((count, cells), -1, dtype=torch.long)
    for row in range(rows.shape[1]):
        box, kind = rows[:, row, :4, None], rows[:, row, 4:5]
        size = box[:, 2] - box[:, 0]
        limit = torch.bucketize(size, torch.tensor(LIMITS[:2], dtype=size.dtype), right=True)
        level = torch.tensor(STRIDES, dtype=size.dtype)[limit]
        away = (model.centres[None] - (box[:, :2] + box[:, 2:]) / 2).abs().amax(dim=1)
        # The cells around the middle, and always the one that it lies in.
        mine = (model.strides == level) & (away <= torch.maximum(level * 0.51, size * 0.2)) & (kind >= 0)
        here = torch.cat([model.centres[None] - box[:, :2], box[:, 2:] - model.centres[None]], dim=1)
        sides = torch.where(mine[:, None], here, sides)
        kinds = torch.where(mine, kind.long(), kinds)
    return sides, kinds


def loss(model: Detector, image: Tensor, rows: Tensor) -> Tensor:
    """Focal loss of the scores, cross-entropy of the classes where there is one, and one minus the overlap of the boxes."""
    sides, logits = model.raw(image)
    wanted, kinds = targets(model, rows)
    there = kinds >= 0
    truth = functional.one_hot(kinds.clamp(min=0), CLASSES).permute(0, 2, 1) * there[:, None]
    share = (truth - logits.sigmoid()).abs().detach()
    found = max(1, int(there.sum()))
    classes = (
        share**2 * functional.binary_cross_entropy_with_logits(logits, truth.float(), reduction="none")
    ).sum() / found
    mine, theirs = sides.permute(0, 2, 1)[there].clamp(min=1e-3), wanted.permute(0, 2, 1)[there]
    low, high = torch.minimum(mine, theirs), torch.maximum(mine, theirs)
    shared = (low[:, 0] + low[:, 2]) * (low[:, 1] + low[:, 3])
    around = (high[:, 0] + high[:, 2]) * (high[:, 1] + high[:, 3])
    areas = [(box[:, 0] + box[:, 2]) * (box[:, 1] + box[:, 3]) for box in (mine, theirs)]
    union = areas[0] + areas[1] - shared
    boxes = (1 - shared / union + (around - union) / around).sum() / found
    # Which digit it is decides among the classes alone: the focal loss by itself learns that slowly.
    which = functional.cross_entropy(logits.permute(0, 2, 1)[there], kinds[there])
    return classes + 2 * which + boxes


def train(images: Tensor, rows: Tensor, *, epochs: int, seed: int) -> Detector:
    torch.manual_seed(seed)
    model = Detector().train()
    steps = epochs * -(-len(images) // 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(32):
            optimizer.zero_grad()
            loss(model, images[batch], rows[batch]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()
