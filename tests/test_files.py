"""Writing that leaves the old file or the new one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sardonyx import files
from sardonyx.errors import OutputError


def test_the_file_appears_only_when_the_block_ends_well(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with files.replacing(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_the_old_file_and_no_trace(tmp_path: Path, raised: type[BaseException]) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(raised), files.replacing(target) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise raised
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_two_writers_of_one_file_do_not_share_a_temporary_name(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with files.replacing(target) as first, files.replacing(target) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert target.read_text() == "first"


def test_a_link_is_replaced_and_what_it_points_at_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "real").read_text() == "old"
    assert (tmp_path / "link").read_text() == "new"


def test_a_device_is_never_replaced_by_a_file() -> None:
    with pytest.raises(OutputError, match="not a plain file"), files.replacing(os.devnull):
        pass
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize("place", ["missing/out.txt", "file/out.txt", "folder", "", "n" * 300])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError) as caught, files.replacing(f"{tmp_path}/{place}") as temporary:
        temporary.write_text("x")
    assert caught.value.message.startswith("cannot write")
    assert caught.value.hint
    with pytest.raises(OutputError):
        files.must_be_writable(f"{tmp_path}/{place}")


def test_a_good_place_is_found_writable_and_stays_empty(tmp_path: Path) -> None:
    files.must_be_writable(tmp_path / "out.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on the size of files makes the write itself fail, as a full disk does."""
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")
    script = """import resource, sys
from sardonyx import files
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
with files.replacing(sys.argv[1]) as temporary:
    temporary.write_bytes(bytes(1 << 20))"""
    done = subprocess.run([sys.executable, "-c", script, str(target)], capture_output=True, text=True)
    assert "OutputError: cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    for text in ("old", "new"):
        with files.replacing_folder(target, known_by="bundle.json") as temporary:
            (temporary / "bundle.json").write_text(text)
            (temporary / f"{text}.txt").touch()
    assert sorted(path.name for path in target.iterdir()) == ["bundle.json", "new.txt"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    target.mkdir()
    (target / "bundle.json").write_text("old")
    with pytest.raises(KeyboardInterrupt), files.replacing_folder(target, known_by="bundle.json"):
        raise KeyboardInterrupt
    assert (target / "bundle.json").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("place", [".", "..", "photos", "note.txt", "photos/../photos"])
def test_a_folder_with_somebody_s_work_is_never_replaced(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    Path("photos/cat.png").touch()
    Path("note.txt").touch()
    with pytest.raises(OutputError), files.replacing_folder(place, known_by="bundle.json"):
        pass
    assert Path("photos/cat.png").exists()
    assert Path("note.txt").exists()


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    with files.replacing_folder(tmp_path / "bundle") as temporary:
        (temporary / "a").touch()
    assert (tmp_path / "bundle" / "a").exists()


def test_copy_and_hash_agree(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(os.urandom(100_000))
    files.copy(tmp_path / "a", tmp_path / "b")
    assert files.sha256(tmp_path / "a") == files.sha256(tmp_path / "b")
    (tmp_path / "b").write_bytes(b"changed")
    assert files.sha256(tmp_path / "a") != files.sha256(tmp_path / "b")


LEFT = """
import os, signal, sys
from pathlib import Path
from sardonyx import files
target = Path(sys.argv[1])
with files.replacing(target / "m.onnx") as one, files.replacing_folder(target / "package", known_by="a") as two:
    one.write_text("half")
    (two / "a").write_text("half")
    print("written", flush=True)
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


def writer(folder: Path, how: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", LEFT, str(folder), how]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"written\n"
    return child


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_lives_is_not(tmp_path: Path) -> None:
    with writer(tmp_path, "dies") as dead:
        dead.wait()
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 3, "two scratch folders and a lock"
    with writer(tmp_path, "lives") as alive:
        names = {path.name for path in tmp_path.iterdir()}
        assert not (left & names) - {".package.lock"}
        files.write_text(tmp_path / "m.onnx", "mine")
        with pytest.raises(OutputError, match=f"another process \\({alive.pid}\\) is writing"):
            files.replacing_folder(tmp_path / "package").__enter__()
        assert {path.name for path in tmp_path.iterdir()} == names | {"m.onnx"}
        assert alive.stdin is not None
        alive.stdin.close()
        alive.wait()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "package"]


def test_what_only_looks_like_a_leftover_stays(tmp_path: Path) -> None:
    (tmp_path / "else").mkdir(mode=0o700)
    (tmp_path / "else" / "thesis").write_text("years of work")
    (tmp_path / ".a.0123abcd.part").symlink_to("else")
    (tmp_path / ".a.0123abce.part").write_text("a file")
    (tmp_path / ".a.0123abcf.part").mkdir(mode=0o755)
    (tmp_path / ".b.0123abcd.part").mkdir(mode=0o700)
    before = sorted(tmp_path.iterdir())
    files.write_text(tmp_path / "a", "new")
    assert sorted(path for path in tmp_path.iterdir() if path.name != "a") == before
    assert (tmp_path / "else" / "thesis").exists()


def test_a_folder_that_was_moved_aside_when_its_writer_was_killed_comes_back(tmp_path: Path) -> None:
    scratch = tmp_path / ".package.0123abcd.part"
    scratch.mkdir(mode=0o700)
    (scratch / "old").mkdir()
    (scratch / "old" / "a").write_text("old")
    (scratch / "new").mkdir()
    with pytest.raises(KeyboardInterrupt), files.replacing_folder(tmp_path / "package", known_by="a"):
        raise KeyboardInterrupt
    assert (tmp_path / "package" / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["package"]


KILLED = """
import os, signal
from sardonyx import files
with files.temporary_folder() as folder:
    (folder / "half").touch()
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_temporary_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path) -> None:
    """Each in a process of its own: one looks for leftovers once."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, env=environment)
        assert [str(path) for path in tmp_path.iterdir()] == [done.stdout.strip()]
