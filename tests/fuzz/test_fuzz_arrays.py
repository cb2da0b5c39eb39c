"""Damaged .npy, .npz, .safetensors and image files: read, or refused as bad data, in bounded memory."""

from __future__ import annotations

import io
import resource
from pathlib import Path

import numpy as np
import pytest

from fuzz.mutation import mutations
from sardonyx import arrays, images
from sardonyx.errors import BadData
from sardonyx.signature import TensorSpec
from soak import amount

PICTURE = TensorSpec("x", "float32", (1, 3, 8, 8))
# What reading a damaged file of a few hundred bytes may add to the process.
BOUND = 512 << 20


def npy(array: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def npz(**members: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.savez_compressed(data, **members)
    return data.getvalue()


def safetensors() -> bytes:
    from safetensors.numpy import save

    return save({"x": np.ones((3, 4), np.float32), "n": np.arange(5)})


SEEDS = {
    "npy": list(map(npy, (np.ones((3, 4), np.float32), np.arange(6), np.array(["a", "bc"]), np.float16(2), np.zeros((0, 2))))),
    "npz": [npz(x=np.ones((3, 4), np.float32), label=np.arange(3)), npz(x=np.array(["a"]))],
    "safetensors": [safetensors()],
}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.soak
@pytest.mark.parametrize("kind", SEEDS)
def test_a_damaged_file_of_arrays_is_read_or_bad_data(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, data in mutations(SEEDS[kind], amount(1500, 100_000)):
        path.write_bytes(data)
        try:
            arrays.read(path)
        except BadData:
            continue
        except Exception as error:
            raise AssertionError(f"{kind} {number}") from error
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < BOUND


@pytest.mark.heavy
@pytest.mark.soak
def test_a_damaged_image_is_decoded_or_bad_data(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    seeds = []
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"):
        data = io.BytesIO()
        pillow.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(data, kind)
        seeds.append(data.getvalue())
    path = tmp_path / "picture.png"
    for number, data in mutations(seeds, amount(1500, 100_000)):
        path.write_bytes(data)
        try:
            images.load(path, PICTURE)
        except BadData:
            continue
        except Exception as error:
            raise AssertionError(f"image {number}") from error


@pytest.mark.parametrize("where", ["npy", "npz"])
def test_a_header_that_promises_a_tebibyte_gets_no_room(where: str, tmp_path: Path) -> None:
    header = npy(np.ones((3, 4), np.float32)).replace(b"(3, 4), }         ", b"(1 << 0, 4), }    ")
    huge = header.replace(b"(1 << 0, 4), }    ", b"(274877906944,)}  ")
    assert b"274877906944" in huge
    path = tmp_path / f"a.{where}"
    if where == "npy":
        path.write_bytes(huge)
    else:
        import zipfile

        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", huge)
    with pytest.raises(BadData, match="promises"):
        arrays.read(path)


def test_an_archive_that_unpacks_to_more_than_the_memory_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sardonyx.machine.memory_bytes", lambda: 1 << 20)
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros(1 << 21, np.uint8))
    assert path.stat().st_size < 1 << 14
    with pytest.raises(BadData, match="more than half of this machine's memory"):
        arrays.read(path)
