"""A process that has confined itself: what it tries outside is refused, and what it needs still works."""

from __future__ import annotations

import json
import platform
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sardonyx import sandbox, system_calls
from sardonyx.sandbox import Confinement

landlock = pytest.mark.skipif(not sandbox.available()["landlock"], reason="this kernel has no Landlock")
seccomp = pytest.mark.skipif(not sandbox.available()["seccomp"], reason="this kernel or machine has no seccomp for us")
limits = pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space hold on Linux")

CHILD = """
import json, os, sys, threading
from sardonyx.sandbox import Confinement, confine
wanted = Confinement.from_dict(json.loads(sys.argv[1]))
words = sys.argv[2:]
confine(wanted)
{body}
print("done")
"""


def tried(body: str, *words: object, **fields: object) -> subprocess.CompletedProcess[str]:
    """A child that confines itself and then does what `body` says."""
    wanted = json.dumps({**Confinement().to_dict(), **fields})
    command = [sys.executable, "-c", CHILD.format(body=body), wanted, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@landlock
def test_it_writes_in_its_scratch_folder_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    writes = [str(tmp_path / "scratch")]
    assert tried("open(words[0], 'w').write('x')", tmp_path / "scratch/in", writes=writes).returncode == 0
    for body in (
        "open(words[0], 'w')",
        "os.mkdir(words[0])",
        "os.symlink('/etc', words[0])",
        "os.link(sys.executable, words[0])",
    ):
        done = tried(body, tmp_path / "out", writes=writes)
        assert "Error" in done.stderr, body
        assert not (tmp_path / "out").exists()


@landlock
def test_it_overwrites_and_removes_nothing_outside(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    for body in (
        "open(words[0], 'r+')",
        "os.truncate(words[0], 0)",
        "os.unlink(words[0])",
        "os.rename(words[0], words[0] + '2')",
    ):
        assert "Error" in tried(body, kept, reads=[str(tmp_path)]).stderr, body
    assert kept.read_text() == "kept"


@landlock
def test_it_reads_the_folder_of_the_model_and_no_secret(tmp_path: Path) -> None:
    for name in ("download", "secrets"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    reads = [str(tmp_path / "download")]
    assert tried("open(words[0]).read()", tmp_path / "download/file", reads=reads).returncode == 0
    for body in ("open(words[0]).read()", "os.listdir(os.path.dirname(words[0]))"):
        assert "PermissionError" in tried(body, tmp_path / "secrets/file", reads=reads).stderr
    (tmp_path / "download" / "link").symlink_to(tmp_path / "secrets" / "file")
    assert "PermissionError" in tried("open(words[0]).read()", tmp_path / "download/link", reads=reads).stderr


@landlock
@seccomp
def test_it_does_not_see_the_environment_of_other_processes() -> None:
    assert "PermissionError" in tried("open(f'/proc/{os.getppid()}/environ').read()").stderr


@seccomp
def test_it_reaches_no_network_and_no_socket_of_the_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for body in (
            "import socket; socket.create_connection(('127.0.0.1', int(words[0])))",
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
            "import socket; socket.socket(socket.AF_UNIX)",
            "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        ):
            assert "PermissionError" in tried(body, port).stderr, body
    body = "import socket; a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'"
    assert tried(body).returncode == 0


@seccomp
@pytest.mark.parametrize(
    "body",
    ["os.fork()", "os.execv('/bin/true', ['true'])", "os.posix_spawn('/bin/true', ['true'], dict())", "os.kill(os.getppid(), 0)",
     "import subprocess; subprocess.run(['true'])", "os.chmod(words[0], 0o777)", "os.chown(words[0], 1, 1)", "os.chroot('/tmp')",
     "os.setuid(1)", "os.mknod('/tmp/never')"],
)  # fmt: skip
def test_it_starts_no_process_and_touches_no_other(body: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = tried(body, tmp_path / "file")
    assert "PermissionError" in done.stderr, done.stderr
    assert "done" not in done.stdout


@seccomp
def test_os_system_runs_nothing(tmp_path: Path) -> None:
    done = tried("assert os.system(f'touch {words[0]}') != 0", tmp_path / "mark")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "mark").exists()


@seccomp
def test_threads_work_and_so_does_the_end_by_abort() -> None:
    done = tried("t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()")
    assert done.stdout.split() == ["thread", "done"]
    assert tried("os.abort()").returncode == -signal.SIGABRT


@seccomp
def test_with_processes_it_starts_some_that_are_confined_too(tmp_path: Path) -> None:
    body = "import subprocess; print(subprocess.run([sys.executable, '-c', words[0]], capture_output=True, text=True).stderr)"
    inner = f"open({str(tmp_path / 'out')!r}, 'w')"
    done = tried(body, inner, processes=True)
    assert "done" in done.stdout
    if sandbox.available()["landlock"]:
        assert "PermissionError" in done.stdout
        assert not (tmp_path / "out").exists()


@limits
def test_memory_files_and_descriptors_end_at_their_limits(tmp_path: Path) -> None:
    assert "MemoryError" in tried("bytearray(4 << 30)", memory=2 << 30).stderr
    done = tried(
        "open(words[0], 'wb').write(bytes(1 << 20))", tmp_path / "big", file_size=1 << 10, writes=[str(tmp_path)]
    )
    assert "File too large" in done.stderr
    assert "Too many open files" in tried("[os.open('/dev/null', 0) for _ in range(100)]", descriptors=32).stderr


@limits
def test_computing_ends_at_its_limit() -> None:
    assert tried("while True: pass", cpu=1).returncode in (-signal.SIGXCPU, -signal.SIGKILL)


@limits
def test_a_lower_limit_of_the_user_stays() -> None:
    body = "import resource; print(resource.getrlimit(resource.RLIMIT_AS)[0])"
    wanted = json.dumps({**Confinement().to_dict(), "memory": 8 << 30})
    script = f'ulimit -v {3 << 20}; exec "$0" "$@"'
    command = ["sh", "-c", script, sys.executable, "-c", CHILD.format(body=body), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split()[0] == str(3 << 30), done.stderr


def test_what_is_available_is_told_even_where_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_landlock_version", lambda: 0)
    monkeypatch.setattr(sandbox, "_has_seccomp", lambda: False)
    sandbox.available.cache_clear()
    try:
        assert not sandbox.holds()
        assert sandbox.available()["landlock"] is False
    finally:
        sandbox.available.cache_clear()


def test_every_forbidden_call_has_a_number_on_a_machine_that_has_it() -> None:
    only_old = {"fork", "vfork", "chmod", "chown", "lchown", "mknod", "iopl", "ioperm"}
    for name in (*system_calls.NEVER, *system_calls.NETWORK, *system_calls.PROCESSES):
        assert name in system_calls.TABLES["x86_64"].numbers
        assert name in system_calls.TABLES["aarch64"].numbers or name in only_old


def test_the_numbers_are_those_of_the_kernel_headers() -> None:
    header = Path(f"/usr/include/{platform.machine()}-linux-gnu/asm/unistd_64.h")
    if not header.exists() or platform.machine() != "x86_64":
        pytest.skip("the headers of an x86-64 kernel are not installed")
    lines = (line.split() for line in header.read_text().splitlines())
    known = {
        line[1].removeprefix("__NR_"): int(line[2]) for line in lines if line[:1] == ["#define"] and len(line) == 3
    }
    ours = system_calls.TABLES["x86_64"].numbers
    assert {name: known[name] for name in ours if name in known} == {name: ours[name] for name in ours if name in known}


def test_confinement_survives_the_way_through_json() -> None:
    wanted = Confinement(reads=("/a",), writes=("/b",), memory=1, processes=True)
    assert Confinement.from_dict(json.loads(json.dumps(wanted.to_dict()))) == wanted
    assert Path(sandbox.program_folders()[0]).is_absolute()
