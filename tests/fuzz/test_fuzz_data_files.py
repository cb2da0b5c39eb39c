"""Data files of a stranger: damaged arrays, tables and images give an answer or an error with a name."""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mutating import damaged, watched
from sardonyx import arrays
from sardonyx.errors import BadData
from sardonyx.model import Model
from sardonyx.samples import Samples
from soak import amount

pytestmark = pytest.mark.heavy
HEAD = '<ir_version: 10, opset_import: ["": 20]> g '
TABLE = Model.from_text(HEAD + "(float[n,3] x) => (float[n,3] y) { y = Relu(x) }").signature
IMAGE = Model.from_text(HEAD + "(float[n,3,h,8] x) => (float[n,3,h,8] y) { y = Relu(x) }").signature
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def npy() -> bytes:
    content = io.BytesIO()
    np.save(content, ROWS)
    return content.getvalue()


def npz() -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, x=ROWS, label=np.arange(4))
    return content.getvalue()


def stored() -> bytes:
    content = io.BytesIO()
    np.savez(content, x=ROWS)
    return content.getvalue()


def safetensors() -> bytes:
    from safetensors.numpy import save

    return save({"x": ROWS, "label": np.arange(4)})


def csv() -> bytes:
    return b"a,b,c,label\n" + b"".join(b"%d,0.5,-3e2,%d\n" % (row, row % 2) for row in range(20))


def parquet() -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as writer

    content = io.BytesIO()
    table = pyarrow.table({"a": ROWS[:, 0], "b": ROWS[:, 1], "c": [1, 2, 3, None], "d": ["x", "y", "x", "z"]})
    writer.write_table(table, content)
    return content.getvalue()


def image(kind: str, **options: object) -> Callable[[], bytes]:
    def make() -> bytes:
        pillow = pytest.importorskip("PIL.Image")
        content = io.BytesIO()
        picture = pillow.fromarray(np.arange(16 * 12 * 3, dtype=np.uint8).reshape(16, 12, 3))
        exif = pillow.Exif()
        exif[0x0112] = 6
        with_exif = {} if kind in ("BMP", "GIF", "PPM") else {"exif": exif}
        picture.save(content, kind, **with_exif, **options)
        return content.getvalue()

    return make


DOORS: dict[str, tuple[str, Callable[[], bytes], int]] = {
    "npy": ("d.npy", npy, 128),
    "npz": ("d.npz", npz, 400),
    "npz stored": ("d.npz", stored, 250),
    "safetensors": ("d.safetensors", safetensors, 150),
    "csv": ("d.csv", csv, 400),
    "parquet": ("d.parquet", parquet, 2000),
    "png": ("d.png", image("PNG"), 120),
    "jpeg": ("d.jpg", image("JPEG"), 300),
    "gif": ("d.gif", image("GIF"), 60),
    "bmp": ("d.bmp", image("BMP"), 60),
    "tiff": ("d.tif", image("TIFF", compression="tiff_lzw"), 200),
    "webp": ("d.webp", image("WEBP"), 100),
    "ppm": ("d.ppm", image("PPM"), 20),
}


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("door", DOORS)
def test_a_damaged_data_file_is_read_or_named(tmp_path: Path, door: str) -> None:
    name, make, head = DOORS[door]
    whole, path, chance = make(), tmp_path / name, random.Random(f"data {door}")
    signature = IMAGE if path.suffix in (".png", ".jpg", ".gif", ".bmp", ".tif", ".webp", ".ppm") else TABLE

    def walk() -> None:
        for _ in Samples.open(path, signature, batch=2).take(3):
            pass

    path.write_bytes(whole)
    walk()
    with watched(tmp_path / "outside") as watch:
        for number in range(amount(150, 100_000)):
            data = damaged(chance, whole, head=head)
            path.write_bytes(data)
            watch.meet((door, number, data[:200]), walk)
    assert len(watch.ends) > 1, "the mutations are to reach the reader, and not all of them are to be refused"


def archive_of(shape: tuple[int, ...], values: bytes, *, dtype: str = "<f4") -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", member)
    return content.getvalue()


BOMBS = {
    "a shape that the member has no bytes for": archive_of((1 << 38,), bytes(16)),
    "a shape beyond all numbers": archive_of((1 << 62, 1 << 62), bytes(16)),
    "elements without a size": archive_of((1 << 40,), b"", dtype="<U0"),
    "examples without a value": archive_of((1 << 40, 0), b""),
    "objects": archive_of((4,), bytes(32), dtype="|O"),
    "a negative size": archive_of((-4, -3), bytes(48)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_archive_that_says_more_than_it_holds_is_refused_before_it_is_unpacked(tmp_path: Path, bomb: str) -> None:
    (tmp_path / "d.npz").write_bytes(BOMBS[bomb])
    with watched(tmp_path / "outside"), pytest.raises(BadData, match=r"d\.npz cannot be read"):
        arrays.read(tmp_path / "d.npz")
    with zipfile.ZipFile(tmp_path / "d.npz") as archive:
        (tmp_path / "d.npy").write_bytes(archive.read("x.npy"))
    with watched(tmp_path / "outside"), pytest.raises(BadData, match=r"d\.npy cannot be read"):
        arrays.read(tmp_path / "d.npy")


def test_a_directory_that_says_less_than_its_member_holds_unpacks_no_more_than_it_says(tmp_path: Path) -> None:
    whole = bytearray(archive_of((1 << 22,), bytes(1 << 24)))
    place = whole.rindex(b"PK\x01\x02") + 24
    whole[place : place + 4] = struct.pack("<I", 200)
    (tmp_path / "d.npz").write_bytes(whole)
    with pytest.raises(BadData):
        arrays.read(tmp_path / "d.npz")


def test_a_text_that_a_dictionary_repeats_is_counted_as_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as writer

    from sardonyx import machine

    monkeypatch.setattr(machine, "memory_bytes", lambda: 64 << 20)
    column = pyarrow.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), ["x" * 1000]).cast(pyarrow.string())
    writer.write_table(pyarrow.table({"a": column}), tmp_path / "d.parquet")
    assert (tmp_path / "d.parquet").stat().st_size < 20_000
    with pytest.raises(BadData, match="memory"):
        arrays.open_arrays(tmp_path / "d.parquet")


def test_a_picture_whose_proportions_would_make_it_endless_is_refused(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGB", (1, 60_000)).save(tmp_path / "d.png")
    wide = Model.from_text(HEAD + "(float[n,3,h,4096] x) => (float[n,3,h,4096] y) { y = Relu(x) }").signature
    with watched(tmp_path / "outside"), pytest.raises(BadData, match="4096x245760000"):
        next(iter(Samples.open(tmp_path / "d.png", wide)))
