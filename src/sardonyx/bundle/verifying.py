"""verify: every byte of a bundle, then its golden cases on what is installed now, then what of its claims still holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sardonyx import child, history, machine, progress
from sardonyx.below import Folder
from sardonyx.bundle.claims import claims
from sardonyx.bundle.contents import MODEL, RECORD, Tampered, file_problem, must_be_bearable, read_record
from sardonyx.errors import InputError
from sardonyx.form import misfit
from sardonyx.golden import GOLDEN
from sardonyx.report import Finding, Report, Table, one_line

CODES = {
    "file-changed": "A file of the bundle is missing, added, or not what was written.",
    "answer-changed": "The installed runtime answers a golden case otherwise than when the bundle was made.",
    "replay-failed": "The installed runtime does not load the model, or fails on a golden case.",
    "claim-not-carried": "A speed that was measured on another machine or runtime, and says nothing about this one.",
    "other-library": "A library has another version than when the bundle was made.",
}
# The address space that a replay takes on its own, for each CPU, and for each byte of the bundle. The machine's memory is the
# most, where that is more than what it takes on its own.
_MEMORY, _THREAD, _TIMES = 4 << 30, 128 << 20, 8
# The child has run a stranger's model, and may say anything.
_OUTPUT = {"name": str, "verdict": str, "error": object, "tolerance": object, "note": str}
_PLACE = {"node": str, "op_type": str, "tensor": str, "why": str}
_ANSWER = (
    {"cases": [{"case": int, "verdict": str, "outputs": [_OUTPUT]}], "first_divergence": (_PLACE, None), "remark": str},
    {"refused": str, "hint": str},
    {"stray": {str: str}},
)


def verify_bundle(folder: Path, *, digest: str | None, memory: int, timeout: float) -> Report:
    """The report of `sardonyx.verify`."""
    try:
        record = read_record(folder)
    except Tampered as found:
        return _tampered([{"name": found.file, "ok": False, "problem": found.problem}], folder)
    must_be_bearable(folder, record)
    with progress.task("checking every file", total=sum(record["sizes"].values())) as advance:
        files = _files(folder, record, digest, advance)
    if not all(item["ok"] for item in files):
        return _tampered(files, folder)
    with progress.task("replaying the golden cases"):
        answer = _replayed(folder, record, memory, timeout)
    if answer.get("stray"):
        return _tampered(_with_stray(files, answer["stray"]), folder)
    now = {"versions": history.versions(), "machine": _machine()}
    held = claims(record, now["versions"], now["machine"])
    return _judged(folder, record, files, answer, held, now)


def _machine() -> dict[str, Any]:
    return {"cpu": machine.cpu_name(), "features": machine.features(), "threads": machine.threads()}


def _files(
    folder: Path, record: Mapping[str, Any], digest: str | None, advance: Callable[[int], Any]
) -> list[dict[str, Any]]:
    """Every file that is or should be there, and what is wrong with it."""
    with Folder(folder) as bundle:
        problems = {name: file_problem(bundle, name, record, advance) for name in sorted(record["files"])}
        problems[RECORD] = (
            "" if digest in (None, record["digest"]) else f"its digest is {record['digest']}, not {digest}"
        )
        problems |= {name: "it was added" for name in bundle.names() if name not in problems}
    return [{"name": name, "ok": not problem, "problem": problem} for name, problem in problems.items()]


def _with_stray(files: list[dict[str, Any]], stray: Mapping[str, str]) -> list[dict[str, Any]]:
    problems = {name: f"its weights lie in {place}, which is no file of the bundle" for name, place in stray.items()}
    return [{**item, "ok": item["name"] not in problems, "problem": problems.get(item["name"], "")} for item in files]


def _replayed(folder: Path, record: Mapping[str, Any], memory: int, timeout: float) -> dict[str, Any]:
    if GOLDEN not in record["files"]:
        raise InputError(f"{folder} holds no golden cases", hint="ship the model again")
    least = _MEMORY + _THREAD * machine.cpus().present
    limit = least + _TIMES * sum(record["sizes"].values()) + 2 * memory
    limit = max(least, min(limit, machine.memory_bytes()))
    request = {
        "folder": str(folder.resolve()), "files": sorted(record["files"]), "memory": memory, "parent": os.getpid(),
    }  # fmt: skip
    outcome = child.call(child.module("sardonyx.bundle._replay"), request, timeout=timeout, memory=limit)
    if outcome.end != "answered":
        words = outcome.stderr.splitlines()[-1] if outcome.stderr else ""
        return {"refused": f"the replay {outcome.reason}", "hint": words}
    wrong = misfit(outcome.answer, _ANSWER)
    return {"refused": f"the replay gave no answer: {wrong}"} if wrong else _on_lines(outcome.answer)


def _on_lines(value: Any) -> Any:
    """Every text of the answer on one line: names of nodes and tensors are a stranger's."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {name: _on_lines(item) for name, item in value.items()}
    return [_on_lines(item) for item in value] if isinstance(value, list) else value


def _judged(
    folder: Path,
    record: Mapping[str, Any],
    files: list[dict[str, Any]],
    answer: Mapping[str, Any],
    held: list[dict[str, Any]],
    now: Mapping[str, Any],
) -> Report:
    cases, divergence = answer.get("cases", []), answer.get("first_divergence")
    bad = [case for case in cases if case["verdict"] == "mismatch"]
    ok = not bad and "refused" not in answer
    findings = [*_answers(answer, bad), *_libraries(record["versions"], now["versions"]), *_claimed(held)]
    return Report(
        "verify", "verified" if ok else "changed", ok,
        fields={
            "bundle": str(folder), "digest": record["digest"], "files": files, "cases": cases,
            "first_divergence": divergence, "remark": answer.get("remark", ""), "claims": held,
            "made_with": {"versions": record["versions"], "machine": record["machine"]}, **now,
        },
        findings=tuple(findings),
        tables=tuple(_tables(cases, divergence, held)),
        summary=_summary(folder, files, cases, bad, answer),
    )  # fmt: skip


def _answers(answer: Mapping[str, Any], bad: list[Any]) -> list[Finding]:
    if "refused" in answer:
        return [Finding("error", "replay-failed", MODEL, answer["refused"], answer.get("hint", ""))]
    if not bad:
        return []
    where = answer["first_divergence"]
    place = f"{where['op_type']} node {where['node']}" if where else MODEL
    words = f"{len(bad)} golden cases are answered otherwise; "
    words += f"the first tensor to change is {where['tensor']}: {where['why']}" if where else answer["remark"]
    hint = "go back to the libraries that the bundle was made with, or ship the model again and look at the difference"
    return [Finding("error", "answer-changed", place, words, hint)]


def _libraries(then: Mapping[str, str], now: Mapping[str, str]) -> list[Finding]:
    other = {name: (then[name], now.get(name)) for name in then if now.get(name) != then[name]}
    return [
        Finding("info", "other-library", name, f"{new or 'not installed'} here, {old} when the bundle was made")
        for name, (old, new) in other.items()
    ]


def _claimed(held: list[dict[str, Any]]) -> list[Finding]:
    return [
        Finding(
            "warning", "claim-not-carried", item["claim"], f"{item['says']}: {item['why']}", "measure it here: sardonyx bench"
        )
        for item in held
        if not item["carries_over"]
    ]  # fmt: skip


def _tables(cases: list[Any], divergence: Mapping[str, Any] | None, held: list[dict[str, Any]]) -> list[Table]:
    rows = tuple(
        (case["case"], output["name"], output["verdict"], output["error"], output["tolerance"], output["note"])
        for case in cases
        for output in case["outputs"]
    )
    tables = [Table("golden cases", ("case", "output", "verdict", "error", "tolerance", "note"), rows)] if rows else []
    if divergence:
        facts = tuple((name, divergence[name]) for name in ("node", "op_type", "tensor", "why"))
        tables.append(Table("first divergence", ("what", "value"), facts))
    if held:
        claimed = tuple((item["says"], "holds here" if item["carries_over"] else item["why"]) for item in held)
        tables.append(Table("measured claims", ("claim", "here"), claimed))
    return tables


def _summary(folder: Path, files: list[Any], cases: list[Any], bad: list[Any], answer: Mapping[str, Any]) -> str:
    if "refused" in answer:
        return f"{folder}  its files are whole, but {answer['refused']}"
    if bad:
        where = answer["first_divergence"]
        place = f", first at node {where['node']}" if where else f": {answer['remark']}"
        return f"{folder}  its files are whole, but {len(bad)} of {len(cases)} golden cases have changed{place}"
    rounded = sum(case["verdict"] == "rounding" for case in cases)
    how = f", {rounded} of them but for rounding" if rounded else ""
    return f"{folder}  {len(files)} files are whole, {len(cases)} golden cases are answered as before{how}"


def _tampered(files: list[dict[str, Any]], folder: Path) -> Report:
    wrong = [
        {**item, "name": one_line(item["name"]), "problem": one_line(item["problem"])}
        for item in files
        if not item["ok"]
    ]
    rows = tuple((item["name"], item["problem"]) for item in wrong)
    hint = "get the bundle again from where it came from"
    return Report(
        "verify", "tampered", False,
        fields={"bundle": str(folder), "files": files, "cases": [], "first_divergence": None, "claims": []},
        findings=tuple(Finding("error", "file-changed", item["name"], item["problem"], hint) for item in wrong),
        tables=(Table("files", ("file", "problem"), rows),),
        summary=f"{folder}  {', '.join(item['name'] for item in wrong)}: not what was written; nothing was run",
    )  # fmt: skip
