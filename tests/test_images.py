import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sardonyx import image_folder, images
from sardonyx.errors import BadData
from sardonyx.signature import TensorSpec

RED, BLUE = (255, 0, 0), (0, 0, 255)


def spec(text: str) -> TensorSpec:
    return TensorSpec.parse(f"x={text}")


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """4 wide, 2 high: the left half red, the right half blue."""
    image = Image.new("RGB", (4, 2), RED)
    image.paste(BLUE, (2, 0, 4, 2))
    image.save(tmp_path / "halves.png")
    return tmp_path / "halves.png"


@pytest.mark.parametrize(
    ("text", "shape", "first"),
    [
        ("float32[1,3,?,?]", (1, 3, 2, 4), lambda a: a[0, :, 0, 0]),
        ("float32[n,h,w,3]", (1, 2, 4, 3), lambda a: a[0, 0, 0]),
        ("float32[3,h,w]", (3, 2, 4), lambda a: a[:, 0, 0]),
        ("float32[h,w,3]", (2, 4, 3), lambda a: a[0, 0]),
    ],
)
def test_the_layout_follows_the_shape(halves: Path, text: str, shape: tuple[int, ...], first: object) -> None:
    array, _ = images.load(halves, spec(text))
    assert array.shape == shape
    assert array.dtype == np.float32
    assert first(array).tolist() == [1, 0, 0]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "shape"),
    [("float32[1,1,?,?]", (1, 1, 2, 4)), ("uint8[n,h,w,1]", (1, 2, 4, 1)), ("float32[n,2,4]", (1, 2, 4))],
)
def test_one_channel_is_grey(halves: Path, text: str, shape: tuple[int, ...]) -> None:
    array, note = images.load(halves, spec(text))
    assert array.shape == shape
    assert "grey" in note
    expected = 76 if "uint8" in text else 76 / 255
    assert array.flat[0] == pytest.approx(expected)


def test_integers_get_raw_pixels_and_floats_get_0_to_1(halves: Path) -> None:
    for dtype, top in (("uint8", 255), ("int32", 255), ("float16", 1), ("float64", 1)):
        array, note = images.load(halves, spec(f"{dtype}[1,3,h,w]"))
        assert array.dtype == dtype
        assert array.max() == top
        assert ("0..1" in note) == (top == 1)


def test_a_fixed_size_is_resized_to_and_said(halves: Path) -> None:
    array, note = images.load(halves, spec("float32[1,3,6,8]"))
    assert array.shape == (1, 3, 6, 8)
    assert note == "RGB NCHW, 4x2 resized to 8x6, scaled to 0..1"
    assert array[0, :, 0, 0].tolist() == [1, 0, 0]
    assert array[0, :, 0, -1].tolist() == [0, 0, 1]


def test_one_fixed_side_keeps_the_proportions(halves: Path) -> None:
    assert images.load(halves, spec("float32[1,3,6,w]"))[0].shape == (1, 3, 6, 12)
    assert images.load(halves, spec("float32[1,3,h,8]"))[0].shape == (1, 3, 4, 8)


def test_shrinking_averages_all_pixels(tmp_path: Path) -> None:
    stripes = np.tile(np.array([0, 255], np.uint8), (64, 32))
    Image.fromarray(stripes).save(tmp_path / "stripes.png")
    array, _ = images.load(tmp_path / "stripes.png", spec("float32[1,1,8,8]"))
    assert np.abs(array - 0.5).max() < 0.02


def test_the_orientation_of_a_camera_is_applied(tmp_path: Path, halves: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the top of the picture is on the right
    Image.open(halves).save(tmp_path / "turned.png", exif=exif)
    array, _ = images.load(tmp_path / "turned.png", spec("float32[1,3,h,w]"))
    assert array.shape == (1, 3, 4, 2)
    assert array[0, :, 0, 0].tolist() == [1, 0, 0]
    assert array[0, :, -1, 0].tolist() == [0, 0, 1]


def test_transparency_lies_over_white(tmp_path: Path) -> None:
    Image.new("RGBA", (2, 2), (*RED, 0)).save(tmp_path / "clear.png")
    Image.new("LA", (2, 2), (0, 0)).save(tmp_path / "clear_grey.png")
    for name in ("clear.png", "clear_grey.png"):
        assert images.load(tmp_path / name, spec("uint8[1,3,h,w]"))[0].min() == 255


def test_sixteen_bits_are_cut_to_eight(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 32768, 65535]], np.uint16)).save(tmp_path / "deep.png")
    array, _ = images.load(tmp_path / "deep.png", spec("uint8[1,1,h,w]"))
    assert array.flatten().tolist() == [0, 128, 255]


@pytest.mark.parametrize("mode", ["P", "1", "CMYK", "L"])
def test_other_modes_become_rgb(tmp_path: Path, mode: str, halves: Path) -> None:
    Image.open(halves).convert(mode).save(tmp_path / "other.tiff")
    assert images.load(tmp_path / "other.tiff", spec("float32[1,3,h,w]"))[0].shape == (1, 3, 2, 4)


@pytest.mark.parametrize("text", ["float32[n,64]", "float32[?,?,?,?]", "float32", "int8[1,3,8,8]", "string[1,3,8,8]"])
def test_an_input_that_is_no_image_is_refused(halves: Path, text: str) -> None:
    with pytest.raises(BadData, match="does not look like an image"):
        images.load(halves, spec(text))


def test_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    for suffix in (".png", ".jpg", ".bmp"):
        whole = tmp_path / f"whole{suffix}"
        Image.fromarray(noise).save(whole)
        cut = tmp_path / f"cut{suffix}"
        cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
        with pytest.raises(BadData, match=f"cut{suffix}"):
            images.load(cut, spec("float32[1,3,h,w]"))
    (tmp_path / "text.png").write_text("no pixels here")
    with pytest.raises(BadData, match=r"text\.png is not an image"):
        images.load(tmp_path / "text.png", spec("float32[1,3,h,w]"))


def test_postscript_is_never_handed_to_another_program(tmp_path: Path) -> None:
    (tmp_path / "page.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n")
    with pytest.raises(BadData, match="is not an image"):
        images.load(tmp_path / "page.png", spec("float32[1,3,h,w]"))


def test_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (200, 200)).save(tmp_path / "bomb.png")
    for limit in (30_000, 3_000):  # pillow warns beyond its limit and raises beyond twice that
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(BadData, match="too many pixels"):
            images.load(tmp_path / "bomb.png", spec("float32[1,1,h,w]"))


def test_without_pillow_the_extra_is_named(halves: Path) -> None:
    # A path in which pillow cannot be found stands for an installation without it.
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from sardonyx import images, errors; from sardonyx.signature import TensorSpec\n"
        f"try: images.load({str(halves)!r}, TensorSpec.parse('x=float32[1,3,8,8]'))\n"
        "except errors.MissingExtra as error: print(error.exit_code, error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.strip() == "3 pip install 'sardonyx[vision]'"


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (2, 2)).save(path)


def test_folders_are_classes_that_take_turns(tmp_path: Path) -> None:
    for name in ("dog/1.png", "dog/2.png", "dog/3.png", "cat/9.PNG", "ant/5.png", "ant/4.jpg"):
        picture(tmp_path / name)
    (tmp_path / "dog" / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden").mkdir()
    found = image_folder.scan(tmp_path)
    assert found.classes == ("ant", "cat", "dog")
    assert found.labels == (0, 1, 2, 0, 2, 2)
    assert [path.name for path in found.paths] == ["4.jpg", "9.PNG", "1.png", "5.png", "2.png", "3.png"]


def test_images_without_folders_have_no_labels(tmp_path: Path) -> None:
    picture(tmp_path / "b.png")
    picture(tmp_path / "a.png")
    found = image_folder.scan(tmp_path)
    assert [path.name for path in found.paths] == ["a.png", "b.png"]
    assert found.labels is None


def test_folders_that_are_empty_or_mixed_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=f"no images in {tmp_path}"):
        image_folder.scan(tmp_path)
    picture(tmp_path / "cat" / "1.png")
    (tmp_path / "dog").mkdir()
    with pytest.raises(BadData, match="dog"):
        image_folder.scan(tmp_path)
    picture(tmp_path / "loose.png")
    with pytest.raises(BadData, match="classes are unclear"):
        image_folder.scan(tmp_path)
