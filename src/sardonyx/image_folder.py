"""A folder of images: the files in the order they are served, their labels, and the classes behind the labels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from sardonyx import images
from sardonyx.errors import BadData
from sardonyx.signature import Array, TensorSpec


@dataclass(frozen=True)
class ImageFolder:
    """Files with one label each, or with none where the folder has no classes."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...] | None = None
    classes: tuple[str, ...] = ()


def scan(folder: Path) -> ImageFolder:
    """Each folder inside is a class, and classes take turns. Hidden files and files that are no images are passed over."""
    inside = sorted(item for item in folder.iterdir() if item.is_dir() and not item.name.startswith("."))
    loose = _images_in(folder)
    if inside and loose:
        raise BadData(
            f"{folder} holds both images and folders, so its classes are unclear",
            hint="put every image into the folder of its class, or none",
        )
    by_class = [_images_in(item) for item in inside]
    empty = [str(item) for item, found in zip(inside, by_class, strict=True) if not found]
    if empty or not (loose or inside):
        raise BadData(
            f"no images in {', '.join(empty or [str(folder)])}",
            hint=f"the name of an image ends in {', '.join(sorted(images.SUFFIXES))}",
        )
    if loose:
        return ImageFolder(tuple(loose))
    labelled = [[(path, label) for path in found] for label, found in enumerate(by_class)]
    turns = [item for turn in zip_longest(*labelled) for item in turn if item is not None]
    paths, labels = zip(*turns, strict=True)
    return ImageFolder(paths, labels, tuple(item.name for item in inside))


def load(paths: tuple[Path, ...], spec: TensorSpec) -> Array:
    """The images of these files as one batch for the input."""
    loaded = [images.load(path, spec)[0] for path in paths]
    for path, array in zip(paths, loaded, strict=True):
        if array.shape != loaded[0].shape:
            raise BadData(
                f"{paths[0]} and {path} have different sizes, and the model fixes none, so they cannot share a batch",
                hint="ask for batches of 1, or make the images equal",
            )
    return np.concatenate(loaded) if len(loaded) > 1 else loaded[0]


def _images_in(folder: Path) -> list[Path]:
    return sorted(
        item
        for item in folder.iterdir()
        if item.suffix.lower() in images.SUFFIXES and item.is_file() and not item.name.startswith(".")
    )
