"""Nothing outside of a folder is read, written or removed, whatever lies in the folder and whoever changes it meanwhile."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mutating import snapshot
from sardonyx.below import Folder, is_plain_name, name_problem
from sardonyx.errors import NotFound, SardonyxError, UnsafePath


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a file and a folder in it, beside a folder with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "plain").write_text("plain")
    (tmp_path / "in" / "sub" / "deep").write_text("deep")
    return tmp_path


OUTSIDE = [
    "../outside/secret",
    "sub/../../outside/secret",
    "..",
    "/etc/passwd",
    "C:x",
    "C:\\x",
    "\\\\host\\x",
    "..\\x",
    "a\0b",
]
STRANGE = ["", "a\\b", "a\nb", "a\x1bb", "a\x9bb", "\udc80", "n" * 256, "a/" * 3000]


@pytest.mark.parametrize("name", [*OUTSIDE, *STRANGE])
def test_a_name_that_is_none_is_refused_for_every_use(place: Path, name: str) -> None:
    before = snapshot(place)
    with Folder(place / "in") as folder:
        uses: list[Callable[[], object]] = [
            lambda: folder.open(name), lambda: folder.read(name, at_most=9), lambda: folder.sha256(name),
            lambda: folder.remove(name), lambda: folder.folder(name, create=True), lambda: folder.write(name).__enter__(),
            lambda: folder.copy("plain", folder, name),
        ]  # fmt: skip
        for use in uses:
            with pytest.raises(UnsafePath) as caught:
                use()
            assert caught.value.reason == ("outside" if name in OUTSIDE else "name")
    assert not is_plain_name(name)
    assert snapshot(place) == before


@pytest.mark.parametrize("name", ["a/b", "a:b", "con", "NUL.txt", "a.", "a ", "."])
def test_a_name_that_some_system_takes_otherwise_is_not_plain(name: str) -> None:
    assert not is_plain_name(name)


@pytest.mark.parametrize("name", ["a", "a.b", "ä", "a b", "sub/deep", "./plain"])
def test_a_name_below_the_folder_is_none_of_these(name: str) -> None:
    assert name_problem(name) == ("", "")


def hard_linked(place: Path) -> None:
    os.link(place / "outside" / "secret", place / "in" / "x")


NOT_PLAIN: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a link": ("x", lambda place: (place / "in" / "x").symlink_to("plain")),
    "a link out": ("x", lambda place: (place / "in" / "x").symlink_to("../outside/secret")),
    "a link to nowhere": ("x", lambda place: (place / "in" / "x").symlink_to("nowhere")),
    "a link on the way": ("x/secret", lambda place: (place / "in" / "x").symlink_to("../outside")),
    "a hard link": ("x", hard_linked),
    "a pipe": ("x", lambda place: os.mkfifo(place / "in" / "x")),
    "a folder": ("sub", Path.exists),
    "a file on the way": ("plain/x", Path.exists),
    "the folder itself": (".", Path.exists),
}


@pytest.mark.parametrize("kind", NOT_PLAIN)
def test_only_plain_files_are_read_and_opening_never_waits(place: Path, kind: str) -> None:
    name, make = NOT_PLAIN[kind]
    make(place)
    with Folder(place / "in") as folder:
        assert not folder.is_plain(name)
        for use in (folder.open, folder.sha256, folder.size):
            with pytest.raises(UnsafePath) as caught:
                use(name)
            assert caught.value.reason == "link"


def test_a_file_that_is_not_there_is_not_found(place: Path) -> None:
    with Folder(place / "in") as folder:
        for name in ("gone", "gone/x", "sub/gone"):
            with pytest.raises(NotFound):
                folder.open(name)
    with pytest.raises(NotFound):
        Folder(place / "in" / "plain")


def test_the_folder_itself_may_be_reached_over_a_link(place: Path) -> None:
    (place / "link").symlink_to("in")
    with Folder(place / "link") as folder:
        assert folder.read("sub/deep", at_most=10) == b"deep"
        assert folder.names() == ["plain", "sub"]


def test_a_size_is_looked_at_before_a_byte_is_read(place: Path) -> None:
    with (place / "in" / "sparse").open("wb") as file:
        file.truncate(300 << 30)
    with Folder(place / "in") as folder:
        with pytest.raises(UnsafePath, match="300"):
            folder.sha256("sparse", size=300)
        with pytest.raises(UnsafePath, match="at most 100"):
            folder.read("sparse", at_most=100)


def test_writing_takes_the_place_of_a_link_and_leaves_what_it_leads_to(place: Path) -> None:
    (place / "in" / "x").symlink_to("../outside/secret")
    os.link(place / "outside" / "secret", place / "in" / "y")
    with Folder(place / "in") as folder:
        for name in ("x", "y", "new/deep"):
            with folder.write(name) as file:
                file.write(b"new")
            assert folder.read(name, at_most=3) == b"new"
        with pytest.raises(KeyboardInterrupt), folder.write("plain"):
            raise KeyboardInterrupt
        assert folder.names() == ["new", "plain", "sub", "x", "y"]
        with pytest.raises(UnsafePath), folder.write("plain/x"):
            pass
    assert (place / "outside" / "secret").read_text() == "secret"
    assert (place / "in" / "plain").read_text() == "plain"


def test_removing_takes_a_link_and_not_what_it_leads_to(place: Path) -> None:
    (place / "in" / "x").symlink_to("../outside")
    (place / "in" / "sub" / "y").symlink_to("../../outside")
    with Folder(place / "in") as folder:
        with pytest.raises(UnsafePath):
            folder.remove("x/secret")
        for name in ("x", "sub", "gone"):
            folder.remove(name)
        assert folder.names() == ["plain"]
    assert (place / "outside" / "secret").read_text() == "secret"


def test_a_copy_with_another_hash_is_not_kept(place: Path) -> None:
    with Folder(place / "in") as folder, Folder(place / "outside") as target:
        expected = folder.sha256("plain")
        folder.copy("plain", target, "a", expected=expected)
        with pytest.raises(UnsafePath, match="not those that were written"):
            folder.copy("sub/deep", target, "b", expected=expected)
        assert target.names() == ["a", "secret"]


def swapping(place: Path, ended: threading.Event) -> None:
    """A folder and a link to the outside take turns under one name, as fast as they can."""
    inner = place / "in"
    while not ended.is_set():
        (inner / "turn").rename(inner / "real")
        with suppress(OSError):  # who writes may have made a folder of this name in the meantime
            (inner / "link").rename(inner / "turn")
            (inner / "turn").rename(inner / "link")
        while (inner / "real").exists():
            with suppress(OSError):
                (inner / "real").rename(inner / "turn")
                break
            shutil.rmtree(inner / "turn")


def test_a_part_that_is_swapped_for_a_link_in_between_leads_nowhere(place: Path) -> None:
    inner = place / "in"
    (inner / "turn").mkdir()
    (inner / "turn" / "secret").write_text("mine")
    (inner / "link").symlink_to("../outside")
    (place / "outside" / "victim").write_text("victim")
    before, ended, seen = snapshot(place / "outside"), threading.Event(), set()
    thread = threading.Thread(target=swapping, args=(place, ended))
    thread.start()
    try:
        with Folder(inner) as folder:
            for number in range(4000):
                try:
                    seen.add(folder.read("turn/secret", at_most=100))
                    if number % 4 == 0:
                        with folder.write("turn/victim") as file:
                            file.write(b"overwritten")
                    if number % 7 == 0:
                        folder.remove("turn/victim")
                except SardonyxError:
                    seen.add(b"refused")
    finally:
        ended.set()
        thread.join()
    assert seen <= {b"mine", b"refused"}
    assert snapshot(place / "outside") == before
