"""Scenes of handwritten digits on coloured ground, with the box and the class of each, and how well a detector finds them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from sardonyx.run.detect import chosen, head_named
from sardonyx.run.heads._head import Raw
from sardonyx.run.suppression import overlaps

SIZE, MOST = 64, 4
SMALLEST, LARGEST = 16, 36
NOTHING = -1  # the class of rows that only fill up


def scenes(count: int, *, seed: int, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of uint8[count,64,64,3] and rows of x0, y0, x1, y1, class in float32[count,4,5]. Held-out digits are others."""
    data = load_digits()
    mine = (np.arange(len(data.target)) % 5 == 0) == held_out
    random = np.random.default_rng(seed)
    made = [_scene(random, data.images[mine], data.target[mine]) for _ in range(count)]
    return np.stack([picture for picture, _ in made]), np.stack([rows for _, rows in made])


def _scene(random: np.random.Generator, digits: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    canvas, rows = _ground(random), np.full((MOST, 5), NOTHING, np.float32)
    placed = np.zeros((0, 4))
    for row in range(random.integers(1, MOST + 1)):
        size = int(random.integers(SMALLEST, LARGEST + 1))
        left, top = random.integers(0, SIZE - size + 1, 2)
        box = np.array([[left, top, left + size, top + size]], float)
        if len(placed) and overlaps(box, placed).max() > 0.1:
            continue
        placed = np.concatenate([placed, box])
        which = random.integers(len(digits))
        ink = _enlarged(digits[which], size)[:, :, None]
        part = canvas[top : top + size, left : left + size]
        canvas[top : top + size, left : left + size] = part * (1 - ink) + random.uniform(0.65, 1, 3) * ink
        rows[row] = [*box[0], classes[which]]
    return (canvas * 255).round().astype(np.uint8), rows


def _ground(random: np.random.Generator) -> np.ndarray:
    """A dark colour that changes slowly, with noise."""
    corners = Image.fromarray(random.integers(0, 90, (3, 3, 3), dtype=np.uint8))
    smooth = np.asarray(corners.resize((SIZE, SIZE), Image.Resampling.BICUBIC)) / 255
    return np.clip(smooth + random.normal(0, 0.04, smooth.shape), 0, 1)


def _enlarged(digit: np.ndarray, size: int) -> np.ndarray:
    image = Image.fromarray((digit / 16 * 255).astype(np.uint8))
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC)) / 255


def network_input(pictures: np.ndarray) -> np.ndarray:
    """uint8[n,64,64,3] as the network takes it: float32[n,3,64,64] from 0 to 1."""
    return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)).astype(np.float32) / np.float32(255)


def mean_average_precision(outputs: np.ndarray, labels: np.ndarray) -> float:
    """mAP at an overlap of 0.5: the mean over classes of the area under precision and recall."""
    hits = [_hits(output.tobytes(), output.shape, rows.tobytes()) for output, rows in zip(outputs, labels, strict=True)]
    scores, right, kinds = (np.concatenate([item[part] for item in hits]) for part in range(3))
    order = np.argsort(-scores, kind="stable")
    right, kinds, truth = right[order], kinds[order], labels[:, :, 4].ravel()
    present = [kind for kind in np.unique(truth) if kind != NOTHING]
    return float(np.mean([_area(right[kinds == kind], int((truth == kind).sum())) for kind in present]))


def _area(right: np.ndarray, there: int) -> float:
    """Under the curve of precision over recall, which never rises again once it has fallen."""
    found = np.cumsum(right)
    precision = found / np.arange(1, len(right) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float((falling * right).sum() / there)


@lru_cache(maxsize=10_000)  # the guard draws the same pictures over and over
def _hits(output: bytes, shape: tuple[int, ...], rows: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score, right or wrong, and class of every box found in one picture; each true box can be found once."""
    raw = Raw({"output": np.frombuffer(output, np.float32).reshape(1, *shape)}, SIZE, SIZE)
    found = chosen(head_named("yolov8").decode(raw), score=0.01, overlap=0.45, limit=50, suppressed=False)
    truth = np.frombuffer(rows, np.float32).reshape(-1, 5)
    truth = truth[truth[:, 4] != NOTHING]
    shared = overlaps(found.boxes, truth[:, :4]) * (found.labels[:, None] == truth[None, :, 4])
    right = np.zeros(len(found.scores), bool)
    for index in range(len(right)):
        best = int(shared[index].argmax()) if len(truth) else 0
        if len(truth) and shared[index, best] >= 0.5:
            right[index] = True
            shared[:, best] = 0
    return found.scores, right, found.labels
