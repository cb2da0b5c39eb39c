"""The report of `check`: every check of this folder, and every target."""

from __future__ import annotations

from pathlib import Path

from sardonyx import progress, registry
from sardonyx.check._fix import Fix, mend
from sardonyx.check._releases import RunsOn, oldest_release, release
from sardonyx.check._subject import Subject, opened
from sardonyx.errors import UsageError
from sardonyx.report import Finding, Report, Table

CHECKS, TARGETS = "sardonyx.check", "sardonyx.check._targets"
_ORDER = {"error": 0, "warning": 1, "info": 2}


def examine(
    path: Path, *, targets: tuple[str, ...], ort: str | None, fix: Path | None, timeout: float | None
) -> Report:
    """The report on the model at `path`; with `fix`, on the mended copy, and on what was done to it."""
    _known(targets)
    if timeout is not None and timeout <= 0:
        raise UsageError(f"a load cannot end within {timeout:g} s", hint="give --timeout a number above 0")
    with opened(path, ort=ort, timeout=timeout) as subject:
        found = _findings(subject, targets)
        runs_on = _runs_on(subject, targets)
        mended = mend(subject, fix) if fix is not None else Fix()
    if fix is None or not mended.written:
        return _report(path, found, runs_on, mended, fix)
    after = examine(fix, targets=targets, ort=ort, fix=None, timeout=timeout)
    return _report(fix, list(after.findings), [RunsOn(**row) for row in after["runs_on"]], mended, fix)


def codes() -> dict[str, str]:
    """Every code that a finding of `check` may have, with its meaning."""
    found: dict[str, str] = {}
    for package in (CHECKS, TARGETS):
        for name in registry.names(package):
            found |= registry.load(package, name).CODES
    return found


def _known(targets: tuple[str, ...]) -> None:
    names = registry.names(TARGETS)
    for target in targets:
        if target not in names:
            raise UsageError(f"no target '{target}'", hint=f"the targets are {', '.join(names)}")


def _findings(subject: Subject, targets: tuple[str, ...]) -> list[Finding]:
    plugins = [(CHECKS, name) for name in registry.names(CHECKS)] + [(TARGETS, name) for name in dict.fromkeys(targets)]
    found: list[Finding] = []
    with progress.task(f"checking {subject.path.name}", total=len(plugins)) as advance:
        for package, name in plugins:
            found += registry.load(package, name).findings(subject)
            advance()
    # Causes before consequences: that the load was refused comes last among its like.
    return sorted(found, key=lambda finding: (_ORDER[finding.severity], finding.code == "load-refused"))


def _runs_on(subject: Subject, targets: tuple[str, ...]) -> list[RunsOn]:
    wanted = dict.fromkeys(("cpu", *targets))
    rows: list[RunsOn] = [registry.load(TARGETS, target).runs_on(subject) for target in wanted]
    if subject.asked_release is not None:
        rows.append(release(subject, subject.asked_release))
    elif not targets:
        rows.append(oldest_release(subject))
    return rows


def _report(path: Path, found: list[Finding], runs_on: list[RunsOn], mended: Fix, fix: Path | None) -> Report:
    errors = sum(finding.severity == "error" for finding in found)
    fields: dict[str, object] = {"runs_on": [row.to_dict() for row in runs_on], "fixed": list(mended.done)}
    if fix is not None:
        fields["fix"] = {
            "path": str(fix) if mended.written else None,
            "reason": mended.reason,
            "tried": list(mended.tried),
        }
    rows = tuple((row.target, row.ok, row.reason) for row in runs_on)
    return Report(
        verb="check",
        verdict="problems" if errors else "ok",
        ok=not errors,
        fields=fields,
        findings=tuple(found),
        tables=(Table("runs on", ("target", "runs", "how it is known"), rows),),
        summary=_summary(path, found, mended, fix),
    )


def _summary(path: Path, found: list[Finding], mended: Fix, fix: Path | None) -> str:
    counts = [(sum(f.severity == severity for f in found), severity) for severity in ("error", "warning")]
    said = ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for count, word in counts if count) or "nothing wrong"
    if fix is None:
        return f"{path.name}: {said}"
    if not mended.written:
        return f"{path.name}: {said}; not fixed: {mended.reason}"
    done = f"fixed: {'; '.join(mended.done)}" if mended.done else "nothing to fix, so it is a copy"
    return f"{fix}: {said}; {done}; {mended.reason}"
