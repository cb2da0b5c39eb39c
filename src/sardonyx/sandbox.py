"""What a process may do once it has confined itself: limits of the system, Landlock for files, seccomp for system calls.

    confine(Confinement(reads=(folder,), writes=(scratch,), memory=2 << 30))

It is called in a child process, with one thread, before the child touches what a stranger made, and cannot be undone. Where the
kernel lacks Landlock or seccomp, the limits still hold; `available()` says what there is. See
docs/decisions/0014-one-way-to-meet-a-strangers-file.md.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import site
import stat
import struct
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

# Relative: workers/_harness.py loads this file in interpreters that have no Sardonyx.
from . import system_calls

# prctl
_PDEATHSIG, _NO_NEW_PRIVS = 1, 38
# Landlock, by the number of the system call, which is the same on every machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
# Rights over files, by the bit. A kernel knows those of its version and the ones before.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TCP = 0b11  # bind and connect, since version 4
_SCOPES = 0b11  # abstract sockets and signals of processes outside, since version 6

# What every Python process reads. The rest of /etc is nobody's business.
_SYSTEM = (
    "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt", "/nix/store", "/sys",
    "/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/timezone",
    "/etc/mime.types", "/etc/alternatives", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/os-release",
    "/etc/debian_version", "/etc/fonts", "/etc/OpenCL", "/etc/vulkan",
)  # fmt: skip
_PROC = (
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/version",
    "/proc/loadavg",
    "/proc/filesystems",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_ACCELERATORS = (
    "/dev/dri",
    "/dev/kfd",
    "/dev/nvidia0",
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/shm",
)


@dataclass(frozen=True)
class Confinement:
    """What a process may still do: folders and files to read and to write, and its limits. None is no limit of ours.

    Without `files` it may open whatever the user may: for code that the user named. Without `processes` it may start none.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    files: bool = True
    network: bool = False
    processes: bool = False
    devices: bool = False
    memory: int | None = None
    cpu: float | None = None
    descriptors: int | None = 4096
    file_size: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Confinement:
        return cls(**{**fields, "reads": tuple(fields["reads"]), "writes": tuple(fields["writes"])})


def confine(wanted: Confinement) -> dict[str, bool]:
    """Confines this process for good, as far as the kernel can; what it could is given back, as by `available`."""
    limit(wanted)
    found = available()
    if sys.platform != "linux":
        return found
    _prctl(_NO_NEW_PRIVS, 1)
    if found["landlock"] and wanted.files:
        _restrict_files(wanted)
    if found["seccomp"]:
        _filter(wanted)
    return found


@cache
def available() -> dict[str, Any]:
    """What the kernel gives: {"limits", "landlock", "landlock_version", "seccomp"}."""
    version = _landlock_version()
    return {
        "limits": sys.platform != "win32",
        "landlock": version > 0,
        "landlock_version": version,
        "seccomp": _has_seccomp(),
    }


def holds() -> bool:
    """Whether a program can be kept from files and the network here: both Landlock and seccomp are there."""
    found = available()
    return bool(found["landlock"] and found["seccomp"])


def limit(wanted: Confinement) -> None:
    """The limits of the system. A lower one that is in force stays."""
    if sys.platform == "win32":
        return
    import resource

    _lower(resource.RLIMIT_CORE, 0)
    for which, amount in (
        (resource.RLIMIT_AS, wanted.memory),
        (resource.RLIMIT_CPU, None if wanted.cpu is None else int(wanted.cpu) + 1),
        (resource.RLIMIT_NOFILE, wanted.descriptors),
        (resource.RLIMIT_FSIZE, wanted.file_size),
    ):
        if amount is not None:
            _lower(which, amount)


def end_with_parent() -> None:
    """The process ends with the thread that started it, however that ends; on Linux."""
    import signal

    if sys.platform == "linux":
        _prctl(_PDEATHSIG, int(signal.SIGKILL))


def program_folders() -> tuple[str, ...]:
    """The folders of this interpreter and of what is installed for it."""
    import sysconfig

    named = [
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        sys.base_exec_prefix,
        os.path.dirname(os.path.dirname(__file__)),
    ]
    named += [entry for entry in sys.path if os.path.isabs(entry)]
    named += [os.path.dirname(os.path.realpath(sys.executable)), *sysconfig.get_paths().values()]
    if site.ENABLE_USER_SITE:
        named.append(site.getusersitepackages())
    return tuple(dict.fromkeys(path for path in named if path and path != "/"))


def _lower(which: int, amount: int) -> None:
    import resource

    soft, hard = resource.getrlimit(which)
    hard = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    soft = hard if soft == resource.RLIM_INFINITY else min(soft, hard)
    resource.setrlimit(which, (soft, hard))


# Landlock


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def _restrict_files(wanted: Confinement) -> None:
    version = _landlock_version()
    rights = _RIGHTS[min(version, max(_RIGHTS))]
    asked = _Ruleset(rights, _TCP if version >= 4 and not wanted.network else 0, _SCOPES if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _call(_CREATE_RULESET, ctypes.byref(asked), ctypes.c_size_t(size), 0)
    try:
        # A process that starts others cannot name their folders in /proc yet.
        own = ("/proc",) if wanted.processes else (f"/proc/{os.getpid()}", *_PROC)
        for path in (*_SYSTEM, *own, *program_folders(), *wanted.reads):
            _allow(ruleset, path, _READ & rights)
        for path in _DEVICES:
            _allow(ruleset, path, (_READ | _WRITE_FILE | _TRUNCATE) & rights)
        for path in (*wanted.writes, *(_ACCELERATORS if wanted.devices else ())):
            _allow(ruleset, path, rights if wanted.devices else rights & ~_IOCTL_DEV)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Allows rights below a path. What is not there cannot be allowed, and is not needed."""
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(found).st_mode)
        rule = _Beneath(rights if is_folder else rights & _OF_A_FILE, found)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(found)


@cache
def _landlock_version() -> int:
    """The version of Landlock that the kernel has; 0 where it has none or does not let us."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return 0
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    except OSError:
        return 0


# seccomp

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # of BPF: load a word, jump if equal, jump if any bit, return
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where these stand in what the filter sees
_SET_MODE_FILTER, _KEEP_SPECULATION = 1, 4
_THREAD = 0x00010000
_NAMESPACES = 0x7E020080  # CLONE_NEW*
_NOT_A_STREAM = 0b1110  # of the types of sockets a stream is 1
_STEAL_INPUT, _LINUX_CONSOLE = 0x5412, 0x541C  # TIOCSTI, TIOCLINUX


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def _filter(wanted: Confinement) -> None:
    table = system_calls.TABLES[platform.machine()]
    code = b"".join(_code(table, wanted))
    program = _Program(len(code) // 8, code)
    pointer = ctypes.byref(program)
    try:
        # Without this flag older kernels slow down all that the process computes.
        _call(table.numbers["seccomp"], _SET_MODE_FILTER, _KEEP_SPECULATION, pointer)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _call(table.numbers["seccomp"], _SET_MODE_FILTER, 0, pointer)


def _code(table: system_calls.Table, wanted: Confinement) -> Iterator[bytes]:
    """The filter, as BPF: each rule ends in an answer or falls through to the next; the last one allows."""
    yield _step(_LOAD, _ARCHITECTURE)
    yield from (_step(_EQUAL, table.architecture, 1, 0), _step(_RETURN, _KILL))
    yield _step(_LOAD, _NUMBER)
    if table.other_abi:  # the same calls under other numbers
        yield from (_step(_ANY_BIT, table.other_abi, 0, 1), _step(_RETURN, _ERROR | errno.EPERM))
    forbidden = [*system_calls.NEVER, *(() if wanted.network else system_calls.NETWORK)]
    forbidden += () if wanted.processes else system_calls.PROCESSES
    for name in forbidden:
        if name in table.numbers:
            yield from (_step(_EQUAL, table.numbers[name], 0, 1), _step(_RETURN, _ERROR | errno.EPERM))
    # Its arguments lie in memory, which a filter does not see; the C library falls back on `clone`.
    yield from (_step(_EQUAL, table.numbers["clone3"], 0, 1), _step(_RETURN, _ERROR | errno.ENOSYS))
    flags = (_NAMESPACES, 0) if wanted.processes else (_THREAD, 1)
    yield from _judged(table.numbers["clone"], 0, _ANY_BIT, *flags)
    for request in (_STEAL_INPUT, _LINUX_CONSOLE):
        yield from _judged(table.numbers["ioctl"], 1, _EQUAL, request, 0)
    if not wanted.network:  # a datagram socket of a pair could still be sent to others
        yield from _judged(table.numbers["socketpair"], 1, _ANY_BIT, _NOT_A_STREAM, 0)
    if not wanted.processes:
        for name in ("kill", "tgkill"):
            yield from _judged(table.numbers[name], 0, _EQUAL, os.getpid(), 1)
    yield _step(_RETURN, _ALLOW)


def _judged(number: int, argument: int, test: int, value: int, allowed_if: int) -> Iterator[bytes]:
    """A call that is allowed if the test of one of its arguments comes out so, else an error."""
    yield _step(_EQUAL, number, 0, 4)
    yield _step(_LOAD, _ARGUMENTS + 8 * argument)
    yield _step(test, value, 1 if allowed_if else 0, 0 if allowed_if else 1)
    yield _step(_RETURN, _ERROR | errno.EPERM)
    yield _step(_LOAD, _NUMBER)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value & 0xFFFFFFFF)


@cache
def _has_seccomp() -> bool:
    if sys.platform != "linux" or platform.machine() not in system_calls.TABLES or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    number = system_calls.TABLES[platform.machine()].numbers["seccomp"]
    try:
        _call(number, _SET_MODE_FILTER, 0, None)  # with nothing to set, it complains about that
    except OSError as error:
        return error.errno == errno.EFAULT
    return True


# the C library


@cache
def _library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _call(number: int, *arguments: Any) -> int:
    result = _library().syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)


def _prctl(option: int, value: int) -> None:
    if _library().prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
