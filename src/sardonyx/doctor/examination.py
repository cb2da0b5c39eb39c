"""The report of doctor: what is here, and what is wrong with it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from sardonyx import __version__, machine, runtime, sandbox
from sardonyx.doctor.installation import Loaded, Mismatch, extras, loaded_runtime, mismatches, versions
from sardonyx.doctor.int8 import meaning
from sardonyx.errors import UsageError
from sardonyx.report import Finding, Report, Table, human_bytes

CODES = {
    "no-sandbox": "The kernel cannot keep a stranger's program from files and the network.",
    "onnxruntime-broken": "The installed onnxruntime cannot be imported.",
    "onnxruntime-mixed": "What loads is another onnxruntime than the one pip knows.",
    "onnxruntime-twice": "Two onnxruntime distributions are installed and overwrite each other's files.",
    "onnxruntime-unmeasured": "The installed onnxruntime is newer than those measured, so that its limits are not known.",
    "package-missing": "A package that Sardonyx needs is not installed.",
    "protobuf-too-new": "Under protobuf 7 converters fail.",
    "telemetry-on": "The environment keeps onnxruntime's telemetry on.",
    "version-untested": "A package of an extra has a version that the extra does not ask for.",
    "version-wrong": "A package that Sardonyx needs has a version that it does not work with.",
}


def examine() -> Report:
    """This machine and this installation; bad if something here will break other verbs."""
    loaded = loaded_runtime()
    fields = _fields(loaded)
    findings = tuple(_findings(fields, loaded, mismatches()))
    problems = [finding for finding in findings if finding.severity == "error"]
    count = fields["threads"]["usable"]
    good = f"models run on {count} {'thread' if count == 1 else 'threads'}"
    summary = f"{len(problems)} to mend" if problems else good
    return Report(
        "doctor", "problems" if problems else "ok", not problems, fields, findings, tuple(_tables(fields)), summary
    )


def _fields(loaded: Loaded) -> dict[str, Any]:
    cpus, features, memory = machine.cpus(), machine.features(), machine.memory_bytes()
    limits = _limits() if loaded.version else None
    return {
        "platform": platform.platform(),
        "python": {"version": platform.python_version(), "path": sys.executable},
        "versions": {**versions(), "sardonyx": __version__},
        "onnxruntime": {
            "version": loaded.version,
            "distributions": runtime.installed_distributions(),
            "newest_opset": limits and limits.opset,
            "newest_ir_version": limits and limits.ir_version,
        },
        "providers": list(loaded.providers),
        "telemetry": "off" if os.environ.get("ORT_DISABLE_TELEMETRY") == "1" else "on",
        "cpu": {"name": machine.cpu_name(), "features": features, "int8": meaning(features)},
        "threads": {
            "usable": cpus.usable,
            "present": cpus.present,
            "affinity": cpus.affinity,
            "cpuset": cpus.cpuset,
            "quota": cpus.quota,
        },
        "memory": {
            "usable": None if memory == sys.maxsize else memory,
            "physical": machine.physical_memory(),
            "limit": machine.cgroup_memory(),
        },
        "sandbox": sandbox.available(),
        "extras": extras(),
    }


def _limits() -> runtime.Limits | None:
    try:
        return runtime.limits()
    except UsageError:  # a release from before the first that was measured
        return None


def _findings(fields: Mapping[str, Any], loaded: Loaded, wrong: Iterable[Mismatch]) -> Iterable[Finding]:
    yield from _runtime_findings(fields["onnxruntime"]["distributions"], loaded)
    for mismatch in wrong:
        yield _mismatch(mismatch)
    if not (fields["sandbox"]["landlock"] and fields["sandbox"]["seccomp"]):
        yield Finding(
            "info", "no-sandbox", "kernel", "no Landlock or no seccomp: .pt2, TorchScript and SavedModel need --trust here",
            "use Linux 5.13 or newer with Landlock, on x86-64 or ARM64",
        )  # fmt: skip
    if fields["telemetry"] == "on":
        yield Finding(
            "info", "telemetry-on", "ORT_DISABLE_TELEMETRY", "your environment keeps onnxruntime's telemetry on",
            "unset it; sardonyx then switches telemetry off",
        )  # fmt: skip


def _runtime_findings(distributions: Mapping[str, str], loaded: Loaded) -> Iterable[Finding]:
    if len(distributions) > 1:
        listed = " and ".join(f"{name} {version}" for name, version in distributions.items())
        keep = next((name for name in distributions if name != "onnxruntime"), "onnxruntime")
        message = f"{listed} are installed together and overwrite each other's files (onnxruntime#26247)"
        hint = f"keep one: pip uninstall -y {' '.join(distributions)} && pip install {keep}"
        yield Finding("error", "onnxruntime-twice", "onnxruntime", message, hint)
    if not distributions:
        return  # named among the packages that are missing
    name, version = next(iter(distributions.items()))
    again = f"pip install --force-reinstall --no-deps {name}=={version}"
    if loaded.trouble:
        yield Finding("error", "onnxruntime-broken", name, f"does not load: {loaded.trouble}", again)
    elif loaded.version != version and len(distributions) == 1:
        message = f"pip knows {version}, but what loads is {loaded.version}: files of two installations are mixed"
        yield Finding("error", "onnxruntime-mixed", name, message, again)
    elif loaded.version and _release(loaded.version) not in runtime.measured():
        message = (
            f"{loaded.version} is newer than the releases measured here; its limits are taken from the newest of those"
        )
        yield Finding("info", "onnxruntime-unmeasured", name, message)


def _mismatch(found: Mismatch) -> Finding:
    asked = f"what sardonyx asks for ({found.bounds})"
    wanted = f"pip install '{found.name}{found.bounds}'"
    if found.extra:
        message = f"{found.version} is not what the extra '{found.extra}' asks for ({found.bounds})"
        return Finding("warning", "version-untested", found.name, message, f"pip install 'sardonyx[{found.extra}]'")
    if found.version is None:
        return Finding("error", "package-missing", found.name, "is not installed", wanted)
    if found.name == "protobuf" and int(found.version.split(".")[0]) >= 7:
        message = f"{found.version} is newer than {asked}: under protobuf 7 converters fail"
        return Finding("error", "protobuf-too-new", found.name, message, wanted)
    return Finding("error", "version-wrong", found.name, f"{found.version} is not {asked}", wanted)


def _release(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _tables(fields: Mapping[str, Any]) -> Iterable[Table]:
    rows = [
        ("platform", fields["platform"]),
        ("python", f"{fields['python']['version']} ({fields['python']['path']})"),
        ("CPU", fields["cpu"]["name"]),
        ("features", _feature_words(fields["cpu"]["features"])),
        ("INT8", fields["cpu"]["int8"]),
        ("threads", _thread_words(fields["threads"])),
        ("memory", _memory_words(fields["memory"])),
        ("sandbox", _sandbox_words(fields["sandbox"])),
        ("onnxruntime", _runtime_words(fields["onnxruntime"])),
        ("providers", ", ".join(fields["providers"])),
        ("telemetry", fields["telemetry"]),
    ]
    yield Table("this machine", ("", ""), tuple(row for row in rows if row[1]))
    yield Table("versions", ("", ""), tuple(fields["versions"].items()))
    rows = [(row["name"], "yes" if row["installed"] else f"no: {row['install']}") for row in fields["extras"]]
    yield Table("extras", ("", ""), tuple(rows))


def _runtime_words(found: Mapping[str, Any]) -> str:
    if not found["version"]:
        return "does not load"
    if not found["newest_opset"]:
        return str(found["version"])
    return f"{found['version']}, up to opset {found['newest_opset']} and IR {found['newest_ir_version']}"


def _feature_words(features: Mapping[str, bool]) -> str:
    there, missing = ([name for name, has in features.items() if has is wanted] for wanted in (True, False))
    return "; ".join(filter(None, (", ".join(there), "no " + ", ".join(missing) if missing else "")))


def _sandbox_words(found: Mapping[str, Any]) -> str:
    """What keeps a stranger's model in: limits, Landlock for files, seccomp for the network and processes."""
    there = ["limits of time and memory"] if found["limits"] else []
    there += [f"Landlock {found['landlock_version']}"] if found["landlock"] else []
    there += ["seccomp"] if found["seccomp"] else []
    missing = [name for key, name in (("landlock", "Landlock"), ("seccomp", "seccomp")) if not found[key]]
    return "; ".join(filter(None, (", ".join(there), "no " + ", no ".join(missing) if missing else "")))


def _thread_words(found: Mapping[str, Any]) -> str:
    limits = [f"{found['present']} CPUs"]
    if found["affinity"] not in (None, found["present"]):
        limits.append(f"{found['affinity']} by affinity")
    if found["cpuset"] not in (None, found["present"], found["affinity"]):
        limits.append(f"{found['cpuset']} by cpuset")
    if found["quota"] is not None:
        limits.append(f"{found['quota']:g} by the container's quota")
    return f"{found['usable']} ({', '.join(limits)})"


def _memory_words(found: Mapping[str, Any]) -> str:
    if found["usable"] is None:
        return ""
    limited = found["limit"] is not None and found["limit"] == found["usable"]
    return human_bytes(found["usable"]) + (" (the container's limit)" if limited else "")
