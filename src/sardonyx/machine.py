"""The machine underneath: the CPU features that decide speed, and what the container really has of threads and memory."""

from __future__ import annotations

import math
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeVar

Limit = TypeVar("Limit", int, float)

CGROUPS, MEMBERSHIP, CPUINFO = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"), Path("/proc/cpuinfo")

# Feature as users know it -> the flag in Linux' /proc/cpuinfo, and numpy's name where numpy looks for it too.
_X86 = {
    "AVX2": ("avx2", "AVX2"),
    "AVX-512": ("avx512f", "AVX512F"),
    "AVX-VNNI": ("avx_vnni", None),
    "AVX-512 VNNI": ("avx512_vnni", "AVX512VNNI"),
    "AMX INT8": ("amx_int8", None),
    "AMX BF16": ("amx_bf16", None),
}
_ARM = {
    "NEON": ("asimd", "ASIMD"),
    "NEON DotProd": ("asimddp", "ASIMDDP"),
    "I8MM": ("i8mm", None),
    "SVE": ("sve", "SVE"),
}
# cgroup v1 writes "no limit" as the largest number of whole pages.
_UNLIMITED = 1 << 60
_TABLES = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


@dataclass(frozen=True)
class Cpus:
    """How many CPUs there are by each limit; None where a limit is not set. `usable` is what all of them leave."""

    present: int
    affinity: int | None
    cpuset: int | None
    quota: float | None

    @property
    def usable(self) -> int:
        """A quota of 1.5 CPUs gives one thread: a second one would be throttled half of its time."""
        whole = None if self.quota is None else max(1, math.floor(self.quota))
        return min(limit for limit in (self.present, self.affinity, self.cpuset, whole) if limit is not None)


def threads() -> int:
    """CPUs this process may use: its affinity mask, cut to the cgroup's set and quota."""
    return cpus().usable


def cpus(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> Cpus:
    """Every limit on the CPUs of this process. Reads cgroup v1 and v2, where a limit of any ancestor binds too."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return Cpus(os.cpu_count() or 1, affinity, cgroup_cpuset(root, membership), cgroup_quota(root, membership))


def cgroup_quota(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> float | None:
    """CPUs that the container's quota allows, or None where there is no quota."""
    return _smallest(_quota, "cpu", root, membership)


def cgroup_cpuset(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int | None:
    """How many CPUs the container is pinned to, or None where no set is in force."""
    return _smallest(_cpuset, "cpuset", root, membership)


def cgroup_memory(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int | None:
    """Bytes that the container may use, or None where there is no limit."""
    return _smallest(_memory, "memory", root, membership)


def memory_bytes(root: Path = CGROUPS, membership: Path = MEMBERSHIP) -> int:
    """Physical memory, cut to the cgroup's limit; the largest integer where the system does not say."""
    limits = (physical_memory(), cgroup_memory(root, membership))
    return min((limit for limit in limits if limit is not None), default=sys.maxsize)


def physical_memory() -> int | None:
    if sys.platform == "win32":
        return _windows_memory()
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def cpu_name(cpuinfo: Path = CPUINFO) -> str:
    return _cpuinfo(cpuinfo).get("model name") or platform.processor() or platform.machine()


def features(cpuinfo: Path = CPUINFO) -> dict[str, bool]:
    """Which instruction sets the CPU has, of those that decide how fast a model runs. What cannot be read is left out."""
    table = _TABLES.get(platform.machine().lower(), {})
    info = _cpuinfo(cpuinfo)
    flags = (info.get("flags") or info.get("Features") or "").split()
    if flags:
        return {name: flag in flags for name, (flag, _) in table.items()}
    seen = _numpy_features()
    return {name: seen[key] for name, (_, key) in table.items() if key in seen}


def has_vnni() -> bool:
    found = features()
    return found.get("AVX-VNNI", False) or found.get("AVX-512 VNNI", False)


def _smallest(read: Callable[[Path], Limit | None], controller: str, root: Path, membership: Path) -> Limit | None:
    found = (read(folder) for folder in _cgroup_folders(controller, root, membership))
    return min((limit for limit in found if limit is not None), default=None)


def _cgroup_folders(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """The process's cgroup in each hierarchy that may hold the controller, with its ancestors."""
    lines = [line.split(":", 2) for line in (_read(membership) or "").splitlines()]
    paths = [(names, path) for _, names, path in (line for line in lines if len(line) == 3)] or [
        ("", "/"),
        (controller, "/"),
    ]
    for names, path in paths:
        if not names:
            bases = [root, root / "unified"]
        elif controller in names.split(","):
            bases = [root / names, root / controller]
        else:
            continue
        # Inside a container the path may name folders of the host that are not mounted here, even with "..".
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for base in bases:
            yield from (base.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _quota(folder: Path) -> float | None:
    unified = (_read(folder / "cpu.max") or "").split()
    quota, period = (
        unified if len(unified) == 2 else (_read(folder / f"cpu.cfs_{word}_us") for word in ("quota", "period"))
    )
    return int(quota) / int(period) if quota and period and quota.isdigit() and period.isdigit() else None


def _cpuset(folder: Path) -> int | None:
    """'0-2,5' -> 4."""
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        text = _read(folder / name)
        if text:
            spans = (span.partition("-") for span in text.split(","))
            return sum(int(last or first) - int(first) + 1 for first, _, last in spans)
    return None


def _memory(folder: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        text = _read(folder / name)
        if text and text.isdigit() and int(text) < _UNLIMITED:
            return int(text)
    return None


def _cpuinfo(path: Path) -> dict[str, str]:
    first = (_read(path) or "").split("\n\n", 1)[0]
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


def _numpy_features() -> dict[str, bool]:
    """What numpy found out for its own dispatch, on systems without /proc."""
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        try:
            return dict(getattr(import_module(name), "__cpu_features__", {}))
        except ModuleNotFoundError:
            continue
    return {}


def _windows_memory() -> int | None:
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = [
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((f"field{i}", ctypes.c_ulonglong) for i in range(7)),
        ]

    status = Status(ctypes.sizeof(Status))
    found = getattr(ctypes, "windll").kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # noqa: B009  absent elsewhere
    return int(status.field0) if found else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return None
