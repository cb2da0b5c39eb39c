"""Limits of containers, read from trees as the kernel lays them out."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from sardonyx import machine
from sardonyx.machine import Cpus

UNIFIED = "0::/app/worker\n"
LEGACY = "5:memory:/app\n4:cpuset:/app\n3:cpu,cpuacct:/app\n1:name=systemd:/init\n"


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    path = tmp_path / "membership"
    path.write_text(UNIFIED)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "cgroup"
    path.mkdir()
    return path


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"app/worker/cpu.max": "200000 100000"}, 2.0),
        ({"app/worker/cpu.max": "150000 100000"}, 1.5),
        ({"app/worker/cpu.max": "max 100000"}, None),
        ({"app/worker/cpu.max": "400000 100000", "app/cpu.max": "100000 100000"}, 1.0),
        ({"app/worker/cpu.max": "max 100000", "cpu.max": "300000 100000"}, 3.0),
        ({}, None),
    ],
)
def test_a_quota_of_version_2_binds_from_any_ancestor(
    root: Path, membership: Path, files: dict[str, str], quota: float | None
) -> None:
    put(root, files)
    assert machine.cgroup_quota(root, membership) == quota


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(("quota", "expected"), [("50000", 0.5), ("-1", None), ("250000", 2.5)])
def test_a_quota_of_version_1_is_found_under_either_name(
    root: Path, membership: Path, folder: str, quota: str, expected: float | None
) -> None:
    membership.write_text(LEGACY)
    put(root, {f"{folder}/app/cpu.cfs_quota_us": quota, f"{folder}/app/cpu.cfs_period_us": "100000"})
    assert machine.cgroup_quota(root, membership) == expected


def test_a_quota_of_version_1_binds_from_an_ancestor(root: Path, membership: Path) -> None:
    membership.write_text("3:cpu:/app/worker\n")
    put(root, {"cpu/app/cpu.cfs_quota_us": "100000", "cpu/app/cpu.cfs_period_us": "50000"})
    put(root, {"cpu/app/worker/cpu.cfs_quota_us": "-1", "cpu/app/worker/cpu.cfs_period_us": "50000"})
    assert machine.cgroup_quota(root, membership) == 2.0


def test_paths_of_the_host_that_are_not_mounted_lead_to_the_container_s_own_group(root: Path, membership: Path) -> None:
    membership.write_text("0::/../../system.slice/docker-1234.scope\n3:cpu:/docker/1234\n")
    put(root, {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"})
    assert machine.cgroup_quota(root, membership) == 1.0


def test_without_a_membership_file_the_root_is_read(root: Path, tmp_path: Path) -> None:
    put(root, {"cpu.max": "100000 100000"})
    assert machine.cgroup_quota(root, tmp_path / "missing") == 1.0


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ({"app/worker/cpuset.cpus.effective": "0-2,5,7-8"}, 6),
        ({"app/worker/cpuset.cpus.effective": "3"}, 1),
        ({"app/worker/cpuset.cpus.effective": "0-7", "cpuset.cpus.effective": "0-15"}, 8),
        ({"app/worker/cpuset.cpus.effective": ""}, None),
    ],
)
def test_a_cpu_set_is_numbered(root: Path, membership: Path, files: dict[str, str], count: int | None) -> None:
    put(root, files)
    assert machine.cgroup_cpuset(root, membership) == count


def test_a_cpu_set_of_version_1_is_numbered(root: Path, membership: Path) -> None:
    membership.write_text(LEGACY)
    put(root, {"cpuset/app/cpuset.cpus": "0-1"})
    assert machine.cgroup_cpuset(root, membership) == 2


@pytest.mark.parametrize(
    ("cpus", "usable"),
    [
        (Cpus(8, 8, None, None), 8),
        (Cpus(8, 4, None, None), 4),
        (Cpus(8, 8, 3, None), 3),
        (Cpus(8, 8, 8, 2.0), 2),
        (Cpus(8, 8, 8, 1.5), 1),
        (Cpus(8, 8, 8, 2.9), 2),
        (Cpus(8, 8, 8, 0.2), 1),
        (Cpus(2, None, None, 16.0), 2),
    ],
)
def test_threads_keep_to_the_tightest_limit(cpus: Cpus, usable: int) -> None:
    assert cpus.usable == usable


def test_threads_of_this_process_are_those_of_its_quota(root: Path, membership: Path) -> None:
    put(root, {"app/worker/cpu.max": "100000 100000"})
    assert machine.cpus(root, membership).usable == 1


@pytest.mark.parametrize(
    ("text", "files", "limit"),
    [
        (UNIFIED, {"app/worker/memory.max": "1048576"}, 1 << 20),
        (UNIFIED, {"app/worker/memory.max": "max", "app/memory.max": "2097152"}, 2 << 20),
        (UNIFIED, {"app/worker/memory.max": "max"}, None),
        (LEGACY, {"memory/app/memory.limit_in_bytes": "1048576"}, 1 << 20),
        (LEGACY, {"memory/app/memory.limit_in_bytes": "9223372036854771712"}, None),
    ],
)
def test_a_memory_limit_is_read(
    root: Path, membership: Path, text: str, files: dict[str, str], limit: int | None
) -> None:
    membership.write_text(text)
    put(root, files)
    assert machine.cgroup_memory(root, membership) == limit
    if limit is not None:
        assert machine.memory_bytes(root, membership) == limit


INTEL = """processor\t: 0
model name\t: Some Xeon
flags\t\t: fpu avx2 avx512f avx512_vnni amx_int8

processor\t: 1
flags\t\t: none
"""
GRAVITON = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n"


def test_features_are_read_from_the_first_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    (tmp_path / "cpuinfo").write_text(INTEL)
    found = machine.features(tmp_path / "cpuinfo")
    assert [name for name, has in found.items() if has] == ["AVX2", "AVX-512", "AVX-512 VNNI", "AMX INT8"]
    assert found["AVX-VNNI"] is False
    assert machine.cpu_name(tmp_path / "cpuinfo") == "Some Xeon"


def test_arm_has_its_own_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    (tmp_path / "cpuinfo").write_text(GRAVITON)
    assert machine.features(tmp_path / "cpuinfo") == {"NEON": True, "NEON DotProd": True, "I8MM": True, "SVE": False}


def test_without_proc_numpy_is_asked_and_what_it_does_not_know_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    found = machine.features(tmp_path / "missing")
    assert {"AVX2", "AVX-512"} <= set(found)
    assert "AMX INT8" not in found
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert machine.features(tmp_path / "missing") == {}


def test_a_system_without_linux_calls_still_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> int:
        raise ValueError(f"unrecognized configuration name: {name}")

    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "sysconf", refuse)
    nowhere = tmp_path / "nowhere"
    assert machine.cpus(nowhere, nowhere) == Cpus(os.cpu_count() or 1, None, None, None)
    assert machine.memory_bytes(nowhere, nowhere) == sys.maxsize
    assert machine.cpu_name(nowhere)
