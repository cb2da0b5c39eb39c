"""The folder in which a bundle is made. It outlives an interruption, and what is done in it is not done again."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sardonyx import lock
from sardonyx.below import Folder, is_plain_name, must_be_plain_names
from sardonyx.bundle.contents import (
    PAGE,
    RECORD,
    REPORT,
    REPORT_AT_MOST,
    Tampered,
    file_problem,
    must_be_bearable,
    read_record,
)
from sardonyx.errors import InputError, OutputError
from sardonyx.files import write_text
from sardonyx.form import misfit
from sardonyx.report import SEVERITIES, Finding, Report, Table

SUFFIX = ".unfinished"


@dataclass(frozen=True)
class Done:
    """A stage that has run: what it was given, what it wrote and what it found. Without a key it is not taken again."""

    name: str
    key: str | None
    report: Report
    seconds: float
    inputs: Mapping[str, str | None] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)

    def provenance(self) -> dict[str, Any]:
        return {
            "stage": self.name, "key": self.key, "verdict": self.report.verdict, "seconds": self.seconds,
            "inputs": dict(self.inputs), "options": dict(self.options), "versions": dict(self.versions),
            "outputs": dict(self.outputs),
        }  # fmt: skip

    def told(self) -> dict[str, Any]:
        """What report.json says of the stage: its fields, and its words and tables for people."""
        tables = [{"title": t.title, "columns": t.columns, "rows": t.rows} for t in self.report.tables]
        whole = {**self.report.to_dict(), "stage": self.name, "seconds": self.seconds}
        return {**whole, "summary": self.report.summary, "tables": tables}

    @classmethod
    def of(cls, provenance: Any, told: Any) -> Done:
        """The stage as `provenance` and `told` gave it; `ValueError` where they did not: whoever wrote them is a stranger."""
        found = misfit(provenance, _PROVENANCE, "provenance") or misfit(told, _TOLD, "told")
        if found:
            raise ValueError(found)
        must_be_plain_names(provenance["outputs"], "the outputs of a stage")
        rest = dict(told)
        tables = tuple(map(_table, rest.pop("tables")))
        findings = tuple(map(_finding, rest.pop("findings", ())))
        verb, verdict, ok, summary = (rest.pop(name) for name in ("verb", "verdict", "ok", "summary"))
        rest = {name: value for name, value in rest.items() if name not in ("stage", "seconds")}
        report = Report(verb, verdict, ok, fields=rest, findings=findings, tables=tables, summary=summary)
        named = {name: provenance[name] for name in ("key", "seconds", "inputs", "options", "versions", "outputs")}
        return cls(provenance["stage"], report=report, **named)


_PROVENANCE = {
    "stage": str, "key": (str, None), "seconds": float, "inputs": {str: (str, None)}, "options": dict,
    "versions": {str: str}, "outputs": {str: str},
}  # fmt: skip
_FINDING = {"severity": str, "code": str, "where": str, "message": str, "hint": str}
_TOLD = {
    "stage": str, "seconds": float, "verb": str, "verdict": str, "ok": bool, "summary": str,
    "tables": [{"title": str, "columns": [str], "rows": [[object]]}], "findings?": [_FINDING],
}  # fmt: skip
# The files that ship itself writes last, so that no stage has them to give.
_LAST = (RECORD, REPORT, PAGE)


def _table(table: Mapping[str, Any]) -> Table:
    if any(len(row) != len(table["columns"]) for row in table["rows"]):
        raise ValueError("a row of a table is longer or shorter than its columns")
    return Table(table["title"], tuple(table["columns"]), tuple(map(tuple, table["rows"])))


def _finding(item: Mapping[str, Any]) -> Finding:
    if item["severity"] not in SEVERITIES:
        raise ValueError("the severity of a finding is unknown")
    return Finding(**{name: item[name] for name in _FINDING})


class Work:
    """`made` holds the files of the bundle to be, `records` what each finished stage found."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(output.name + SUFFIX)
        self.made, self.records = self.folder / "bundle", self.folder / "stages"
        self._old: dict[str, Done] | None = None
        self._held: dict[str, tuple[str, int]] = {}

    def take(self, name: str, key: str | None) -> Done | None:
        """The stage as an earlier run left it, with its files in place, if it was given the same; else None."""
        if key is None:
            return None
        for done in (self._unfinished(name), self._shipped().get(name)):
            fits = done is not None and done.key == key and done.report.ok
            if done is not None and fits and all(self._provide(*item) for item in done.outputs.items()):
                return done
        return None

    def forget(self) -> None:
        """Nothing of an earlier run is taken from here on."""
        self._old = {}
        self.clear([])
        with Folder(self.records) as records:
            for name in records.names():
                records.remove(name)

    def keep(self, done: Done) -> None:
        """The stage is done: from here on an interruption does not undo it."""
        text = Report("stage", "", True, fields={"provenance": done.provenance(), "told": done.told()}).to_json()
        write_text(self.records / f"{done.name}.json", text)

    def clear(self, claimed: Iterator[str] | list[str]) -> None:
        """Removes what no finished stage has made."""
        kept = set(claimed)
        with Folder(self.made) as made:
            for name in made.names():
                if name not in kept:
                    made.remove(name)

    def finish(self) -> None:
        """The made folder becomes the bundle. Whatever interrupts this, the next run or `open` puts it right."""
        old = self.folder / "old"
        for path in self.made.iterdir():
            _sync(path)
        if os.path.lexists(self.output):  # a link is moved, and not what it leads to
            self.output.rename(old)
        self.made.rename(self.output)
        shutil.rmtree(self.folder)

    def _unfinished(self, name: str) -> Done | None:
        """The stage as an interrupted run left it; None where there is none, or something else than a stage."""
        try:
            with Folder(self.records) as records:
                held = json.loads(records.read(f"{name}.json", at_most=REPORT_AT_MOST))
            return Done.of(held["provenance"], held["told"])
        except _NOT_A_STAGE:
            return None

    def _shipped(self) -> dict[str, Done]:
        """The stages of the bundle that lies at the output now; none if that is not whole."""
        if self._old is None:
            self._old, self._held = _stages_of(self.output) if self.output.is_dir() else ({}, {})
        return self._old

    def _provide(self, name: str, expected: str) -> bool:
        """Puts a file with these bytes into the made folder, from there or from the bundle, under whatever name it has there."""
        if name in _LAST:
            return False
        with Folder(self.made) as made:
            if any(_is_same(made, each, expected) and _copied(made, each, made, name, expected)
                   for each in (name, *made.names())):  # fmt: skip
                return True
            self._shipped()
            others = [(each, size) for each, (digest, size) in self._held.items() if digest == expected]
            if not others:
                return False
            with Folder(self.output) as bundle:
                return any(_copied(bundle, each, made, name, expected, size) for each, size in others)


# What reading something that is no stage, or not ours, may raise.
_NOT_A_STAGE = (InputError, Tampered, KeyError, TypeError, ValueError, RecursionError, OSError)


def _is_same(made: Folder, name: str, expected: str) -> bool:
    try:
        return made.sha256(name) == expected
    except InputError:
        return False


def _copied(source: Folder, name: str, target: Folder, to: str, expected: str, size: int | None = None) -> bool:
    if source is target and name == to:
        return True
    try:
        source.copy(name, target, to, expected=expected, size=size)
    except InputError:
        return False
    return True


@contextmanager
def at_work(output: Path) -> Iterator[Work]:
    """A work folder of ours alone. It goes when nothing in it is worth keeping, and stays when something is."""
    work = Work(output)
    with lock.held(lock.beside(output), output):
        _must_be_ours(work)
        work.folder.mkdir(exist_ok=True)
        _recover(work)
        for folder in (work.made, work.records):
            folder.mkdir(exist_ok=True)
        with Folder(work.made) as made:  # whoever put a link or a pipe there, it was no stage
            for name in made.names():
                if not made.is_plain(name):
                    made.remove(name)
        try:
            yield work
        finally:
            if work.folder.exists() and not any(work.records.iterdir()):
                shutil.rmtree(work.folder)


def _must_be_ours(work: Work) -> None:
    """Raises `OutputError` where something else lies at the place of the work folder: a link would lead us elsewhere."""
    if not os.path.lexists(work.folder):
        return
    known = {work.made.name, work.records.name, "old"}
    status = work.folder.lstat()
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == getattr(os, "geteuid", lambda: status.st_uid)()
    if not ours or any(
        path.name not in known or not stat.S_ISDIR(path.lstat().st_mode) for path in work.folder.iterdir()
    ):
        raise OutputError(
            f"{work.folder} is in the way: it is not a work folder of ship", hint="move it, or choose another output"
        )


def _recover(work: Work) -> None:
    """Ends what an interrupted `finish` began."""
    old = work.folder / "old"
    if old.is_dir() and not os.path.lexists(work.output):
        old.rename(work.output)
    elif old.is_dir():
        shutil.rmtree(old)


def _stages_of(bundle: Path) -> tuple[dict[str, Done], dict[str, tuple[str, int]]]:
    """The stages that a bundle tells of, and its files with hash and size. A bundle of other hands may have nothing to give."""
    try:
        record = read_record(bundle)
        must_be_bearable(bundle, record)
        with Folder(bundle) as folder:
            if file_problem(folder, REPORT, record):
                return {}, {}
            report = json.loads(folder.read(REPORT, at_most=REPORT_AT_MOST))
        told = {stage["stage"]: stage for stage in report["stages"]}
        told["golden"]["ledger"] = report["ledger"]
        stages = [Done.of(item, told[item["stage"]]) for item in record["provenance"]]
    except _NOT_A_STAGE:
        return {}, {}
    return {done.name: done for done in stages}, {
        name: (digest, record["sizes"][name]) for name, digest in record["files"].items() if is_plain_name(name)
    }


def _sync(path: Path) -> None:
    with suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())
