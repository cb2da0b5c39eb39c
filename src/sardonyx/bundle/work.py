"""The folder in which a bundle is made. It outlives an interruption, and what is done in it is not done again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sardonyx.bundle.contents import RECORD, REPORT, Tampered, file_problem, read_record
from sardonyx.errors import InputError, OutputError
from sardonyx.files import copy, sha256, write_text
from sardonyx.report import Finding, Report, Table

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
    def of(cls, provenance: Mapping[str, Any], told: Mapping[str, Any]) -> Done:
        """The stage as `provenance` and `told` gave it."""
        rest = dict(told)
        for name in ("stage", "seconds"):
            rest.pop(name)
        tables = tuple(
            Table(table["title"], tuple(table["columns"]), tuple(map(tuple, table["rows"])))
            for table in rest.pop("tables")
        )
        findings = tuple(Finding(**item) for item in rest.pop("findings", ()))
        verb, verdict, ok, summary = (rest.pop(name) for name in ("verb", "verdict", "ok", "summary"))
        report = Report(verb, verdict, ok, fields=rest, findings=findings, tables=tables, summary=summary)
        named = {name: provenance[name] for name in ("key", "seconds", "inputs", "options", "versions", "outputs")}
        return cls(provenance["stage"], report=report, **named)


class Work:
    """`made` holds the files of the bundle to be, `records` what each finished stage found."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = output.with_name(output.name + SUFFIX)
        self.made, self.records = self.folder / "bundle", self.folder / "stages"
        self._old: dict[str, Done] | None = None

    def take(self, name: str, key: str | None) -> Done | None:
        """The stage as an earlier run left it, with its files in place, if it was given the same; else None."""
        if key is None:
            return None
        for done in (self._unfinished(name), self._shipped().get(name)):
            if done is not None and done.key == key and all(self._provide(*item) for item in done.outputs.items()):
                return done
        return None

    def keep(self, done: Done) -> None:
        """The stage is done: from here on an interruption does not undo it."""
        text = Report("stage", "", True, fields={"provenance": done.provenance(), "told": done.told()}).to_json()
        write_text(self.records / f"{done.name}.json", text)

    def clear(self, claimed: Iterator[str] | list[str]) -> None:
        """Removes what no finished stage has made."""
        kept = set(claimed)
        for path in self.made.iterdir():
            if path.name not in kept:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def finish(self) -> None:
        """The made folder becomes the bundle. Whatever interrupts this, the next run or `open` puts it right."""
        old = self.folder / "old"
        for path in self.made.iterdir():
            _sync(path)
        if self.output.exists():
            self.output.rename(old)
        self.made.rename(self.output)
        shutil.rmtree(self.folder)

    def _unfinished(self, name: str) -> Done | None:
        path = self.records / f"{name}.json"
        if not path.is_file():
            return None
        held = json.loads(path.read_text(encoding="utf-8"))
        return Done.of(held["provenance"], held["told"])

    def _shipped(self) -> dict[str, Done]:
        """The stages of the bundle that lies at the output now; none if that is not whole."""
        if self._old is None:
            self._old = _stages_of(self.output) if (self.output / RECORD).is_file() else {}
        return self._old

    def _provide(self, name: str, expected: str) -> bool:
        """Puts a file with these bytes into the made folder, from there or from the bundle, under whatever name it has there."""
        target = self.made / name
        if target.is_file() and sha256(target) == expected:
            return True
        for folder in (self.made, self.output):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if path.is_file() and not path.is_symlink() and path.name != RECORD and sha256(path) == expected:
                    copy(path, target)
                    return True
        return False


@contextmanager
def at_work(output: Path) -> Iterator[Work]:
    """A work folder of ours alone. It goes when nothing in it is worth keeping, and stays when something is."""
    work = Work(output)
    if os.path.lexists(work.folder) and not _is_ours(work):
        raise OutputError(
            f"{work.folder} is in the way: it is not a work folder of ship", hint="move it, or choose another output"
        )
    work.folder.mkdir(exist_ok=True)
    with _locked(work.folder):
        _recover(work)
        for folder in (work.made, work.records):
            folder.mkdir(exist_ok=True)
        try:
            yield work
        finally:
            if work.folder.exists() and not any(work.records.iterdir()):
                shutil.rmtree(work.folder)


def _is_ours(work: Work) -> bool:
    known = {work.made.name, work.records.name, "old"}
    return work.folder.is_dir() and {path.name for path in work.folder.iterdir()} <= known


def _recover(work: Work) -> None:
    """Ends what an interrupted `finish` began."""
    old = work.folder / "old"
    if old.is_dir() and not work.output.exists():
        old.rename(work.output)
    elif old.is_dir():
        shutil.rmtree(old)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Nobody else makes this bundle at the same time. The system lets go of the lock when the process ends, however."""
    try:
        import fcntl
    except ModuleNotFoundError:  # not a POSIX system
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise OutputError(f"another ship is at work in {folder}", hint="wait until it has ended") from error
    finally:
        os.close(handle)


def _stages_of(bundle: Path) -> dict[str, Done]:
    try:
        record = read_record(bundle)
        if file_problem(bundle, REPORT, record):
            return {}
        report = json.loads((bundle / REPORT).read_text(encoding="utf-8"))
        told = {stage["stage"]: stage for stage in report["stages"]}
        told["golden"]["ledger"] = report["ledger"]
        return {item["stage"]: Done.of(item, told[item["stage"]]) for item in record["provenance"]}
    except (Tampered, InputError, KeyError, TypeError, ValueError):  # a bundle of other hands has nothing to give
        return {}


def _sync(path: Path) -> None:
    with suppress(OSError), path.open("rb") as file:
        os.fsync(file.fileno())
