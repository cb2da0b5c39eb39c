import io
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from sardonyx import arrays
from sardonyx.errors import BadData, NotFound


def test_each_kind_is_known_by_its_bytes_and_not_by_its_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    np.savez(tmp_path / "b.npz", x=np.arange(3))
    save_file({"x": np.arange(3)}, tmp_path / "c.safetensors")
    (tmp_path / "d.txt").write_text("hello")
    found = [arrays.kind(path.rename(tmp_path / f"{path.stem}.data")) for path in sorted(tmp_path.iterdir())]
    assert found == ["npy", "npz", "safetensors", None]


def test_an_npy_is_mapped_and_a_safetensors_is_sliced(tmp_path: Path) -> None:
    whole = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "a.npy", whole)
    save_file({"x": whole, "scalar": np.array(3)}, tmp_path / "b.safetensors")
    mapped = arrays.open_arrays(tmp_path / "a.npy")[arrays.NAMELESS]
    sliced = arrays.open_arrays(tmp_path / "b.safetensors")
    assert isinstance(mapped, np.memmap)
    assert not isinstance(sliced["x"], np.ndarray)
    assert sliced["x"].shape == (4, 3)
    assert np.array_equal(sliced["x"][1:3], whole[1:3])
    assert arrays.read(tmp_path / "b.safetensors")["scalar"] == 3


def test_an_npy_without_elements_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    assert arrays.read(tmp_path / "none.npy")[arrays.NAMELESS].shape == (0, 3)


@pytest.mark.parametrize("names", [("a/b", "StatefulPartitionedCall:0", "file", "allow_pickle", "x.npy", "../up", "é")])
def test_written_names_of_every_sort_come_back(tmp_path: Path, names: tuple[str, ...]) -> None:
    written = {name: np.full(2, index) for index, name in enumerate(names)}
    arrays.write_npz(tmp_path / "out.npz", written)
    with np.load(tmp_path / "out.npz") as plain:
        assert sorted(plain.files) == sorted(names)
    back = arrays.read(tmp_path / "out.npz")
    assert all(np.array_equal(back[name], written[name]) for name in names)


def test_strings_and_rare_types_are_written_without_pickle(tmp_path: Path) -> None:
    rare = {
        "text": np.array(["a", "longer"], dtype=object),
        "brain": np.array([1.5, 2], ml_dtypes.bfloat16),
        "nibble": np.array([-3, 2], ml_dtypes.int4),
        "none": np.zeros((0, 3), np.float16),
    }
    arrays.write_npz(tmp_path / "out.npz", rare)
    back = arrays.read(tmp_path / "out.npz")
    assert back["text"].tolist() == ["a", "longer"]
    assert back["brain"].dtype == np.float32
    assert back["brain"].tolist() == [1.5, 2]
    assert back["nibble"].tolist() == [-3, 2]
    assert back["none"].shape == (0, 3)


def test_equal_arrays_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        arrays.write_npz(tmp_path / f"{name}.npz", {"x": np.arange(5)})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    arrays.write_npz(tmp_path / "out.npz", {"x": np.arange(5)})
    before = (tmp_path / "out.npz").read_bytes()
    with pytest.raises(AttributeError):
        arrays.write_npz(tmp_path / "out.npz", {"x": np.arange(5), "y": "not an array"})  # type: ignore[dict-item]
    assert (tmp_path / "out.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"x": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", x=np.array([{"x": 1}], dtype=object), allow_pickle=True)
    for name in ("a.npy", "b.npz"):
        with pytest.raises(BadData, match="Python objects"):
            arrays.read(tmp_path / name)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.arange(1000))
    np.savez_compressed(tmp_path / "whole.npz", x=np.arange(1000))
    save_file({"x": np.arange(1000)}, tmp_path / "whole.safetensors")
    for whole in list(tmp_path.iterdir()):
        cut = tmp_path / f"cut{whole.suffix}"
        cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
        with pytest.raises(BadData, match=f"cut{whole.suffix}"):
            arrays.read(cut)


def test_files_of_another_kind_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npz").write_text("x = 1")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("readme.txt", "not an array")
    for name in ("empty.npy", "text.npz", "zip.npz"):
        with pytest.raises(BadData, match=name):
            arrays.read(tmp_path / name)
    with pytest.raises(NotFound, match="is a folder"):
        arrays.read(tmp_path)
    with pytest.raises(NotFound, match="does not exist"):
        arrays.read(tmp_path / "nowhere.npz")


def test_an_npz_that_unpacks_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx.machine.memory_bytes", lambda: 1 << 20)
    content = io.BytesIO()
    np.savez_compressed(content, x=np.zeros(1 << 18))
    (tmp_path / "bomb.npz").write_bytes(content.getvalue())
    assert len(content.getvalue()) < 1 << 14
    with pytest.raises(BadData, match="memory"):
        arrays.read(tmp_path / "bomb.npz")
