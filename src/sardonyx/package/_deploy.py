"""A package from beginning to end: written by its target, read again by its check, and put in place if that is content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from sardonyx import history, progress, registry
from sardonyx.errors import UsageError
from sardonyx.files import replacing_folder, sha256
from sardonyx.golden import GOLDEN, Golden, load
from sardonyx.model import Model
from sardonyx.package._subject import MODEL, Subject, Wishes
from sardonyx.report import Finding, Report, Table, human_bytes
from sardonyx.run.session import Session, Settings

CODES = {"golden-case-broken": "The packaged model answers a golden case of its bundle otherwise."}
RECORD = "sardonyx.json"
FORMAT = 1
_PACKAGE = "sardonyx.package"


class _Abandoned(Exception):
    """The check found errors: the folder that was being filled is dropped."""


def deploy(source: str | Path | Model, output: Path, target: str, wishes: Wishes) -> Report:
    """The report of `sardonyx.package`."""
    known = registry.names(_PACKAGE)
    if target not in known:
        raise UsageError(f"there is no target '{target}'", hint=f"the targets are {', '.join(known)}")
    plugin = registry.load(_PACKAGE, target)
    strange = [wish for wish in wishes.made if wish not in plugin.TAKES]
    if strange:
        raise UsageError(
            f"--{strange[0].replace('_', '-')} means nothing to {target}", hint="leave it out, or choose another target"
        )
    try:
        with replacing_folder(output, known_by=RECORD) as folder:
            with progress.task("loading the model"):
                subject = Subject(source, wishes.name)
            with progress.task(f"writing for {target}"):
                said: tuple[Finding, ...] = tuple(plugin.package(subject, folder, wishes))
            with progress.task("checking what was written"):
                said += (*_replay(folder), *plugin.check(folder))
            steps = _steps(plugin.STEPS, subject, output)
            report = _report(target, subject, output, _files(folder), said, steps)
            if not report.ok:
                raise _Abandoned
            (folder / RECORD).write_text(_record(target, subject, folder))
    except _Abandoned:
        return report
    return report


def _replay(folder: Path) -> Iterator[Finding]:
    """Opens every model of the folder where it lies now, with its external data, and replays its golden cases."""
    for path in sorted(folder.rglob(MODEL)):
        session, kept = Session(path, Settings(threads=1)), path.with_name(GOLDEN)
        golden = load(kept) if kept.is_file() else Golden((), ())
        judged = [golden.judge(index, session(case.inputs)) for index, case in enumerate(golden.cases)]
        bad = [index for index, found in enumerate(judged) if found.verdict == "mismatch"]
        if bad:
            words = f"{len(bad)} of {len(judged)} golden cases are answered otherwise, case {bad[0]} first"
            yield Finding("error", "golden-case-broken", str(path.relative_to(folder)), words, "sardonyx verify BUNDLE")


def _files(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}


def _record(target: str, subject: Subject, folder: Path) -> str:
    """What the folder is, for the one who finds it: every file with its hash, and the versions that made it."""
    hashes = {name: sha256(path) for name, path in _files(folder).items()}
    record = {
        "format": FORMAT, "target": target, "name": subject.name, "files": hashes, "versions": history.versions(),
    }  # fmt: skip
    return json.dumps(record, indent=1) + "\n"


def _steps(lines: tuple[str, ...], subject: Subject, output: Path) -> list[str]:
    return [line.format(folder=quote(str(output)), name=subject.name, label=subject.label) for line in lines]


def _report(
    target: str, subject: Subject, output: Path, files: dict[str, Path], findings: tuple[Finding, ...], steps: list[str]
) -> Report:
    ok = all(finding.severity != "error" for finding in findings)
    sizes = {name: path.stat().st_size for name, path in files.items()}
    listing = Table("files", ("file", "size"), tuple((name, human_bytes(size)) for name, size in sizes.items()))
    following = Table("what to do next", ("",), tuple((step,) for step in steps))
    return Report(
        "package",
        "packaged" if ok else "problems",
        ok,
        fields={
            "target": target,
            "name": subject.name,
            "path": str(output) if ok else None,
            "files": [{"path": name, "bytes": size} for name, size in sizes.items()],
            "steps": steps if ok else [],
        },
        findings=findings,
        tables=(listing, following) if ok else (listing,),
        summary=f"{subject.name} for {target} in {output}" if ok else f"nothing was written to {output}",
    )
