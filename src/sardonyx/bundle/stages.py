"""The stages of ship in their order: what each reads, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import sardonyx
from sardonyx import files, history, machine
from sardonyx.bundle import fingerprint
from sardonyx.bundle.contents import FLOAT, MODEL, OPTIMIZED
from sardonyx.bundle.golden import keep_cases
from sardonyx.bundle.ledger import keep_ledger
from sardonyx.bundle.settings import Settings
from sardonyx.errors import InputError
from sardonyx.golden import GOLDEN, load
from sardonyx.model import Model
from sardonyx.report import Report
from sardonyx.sources import Original, Outputs, Source, recognise

SOURCE, DATA = "source", "data"
_OPENING = ("weights", "python", "trust")
# Options that count by what they hold, not by where it lies.
_HASHED = ("data", "weights")
NO_DATA = "there is no data to calibrate with; give --data"


@dataclass(frozen=True)
class Job:
    """What is shipped, with what, and the folder in which it is made."""

    source: Any
    folder: Path
    data: Any
    settings: Settings
    label: str | None = None

    def options(self, stage: str) -> dict[str, Any]:
        """The stage's keywords; those that read data get that of the whole job, and its label, unless they name their own."""
        given = self.settings.of(stage)
        if stage not in _WITH_DATA:
            return given
        shared = {} if self.label is None or "data" in given else {"label": self.label}
        return {"data": self.data, **shared, **given}

    @cached_property
    def opening(self) -> dict[str, Any]:
        """How to open the source, wherever that is done."""
        given = self.settings.of("convert")
        return {name: given[name] for name in _OPENING if name in given}

    @cached_property
    def recognised(self) -> Source:
        return recognise(self.source, **self.opening)

    @cached_property
    def source_hash(self) -> str | None:
        return fingerprint.of_source(self.recognised)


@dataclass(frozen=True)
class Stage:
    """One stage. `reads` are files of the folder, or the source or the data; `measures` says that the machine counts."""

    name: str
    run: Callable[[Job], Report]
    reads: tuple[str, ...]
    measures: bool = False
    libraries: tuple[str, ...] = ()

    def inputs(self, job: Job) -> dict[str, str | None]:
        return {name: self._input(name, job) for name in self.reads}

    def versions(self, job: Job) -> dict[str, str]:
        own = fingerprint.libraries(job.recognised) if SOURCE in self.reads else {}
        return {**history.versions(*self.libraries), **own}

    def key(self, job: Job, inputs: Mapping[str, str | None]) -> str | None:
        """The same key means the same answer. None where something that goes in has no hash."""
        if None in inputs.values():
            return None
        where = machine_now() if self.measures else None
        skipped = self.name in job.settings.skip
        options = {name: value for name, value in job.options(self.name).items() if name not in _HASHED}
        example = fingerprint.of_data(options.pop("example", None))
        if example is None:
            return None
        parts = {"stage": self.name, "inputs": inputs, "options": told(options), "example": example, "skipped": skipped}
        return fingerprint.combined({**parts, "versions": self.versions(job), "machine": where})

    def _input(self, name: str, job: Job) -> str | None:
        if name == SOURCE:
            return job.source_hash
        if name == DATA:
            return fingerprint.of_data(job.options(self.name)["data"])
        return fingerprint.of_files(model_files(job.folder, name))


def machine_now() -> dict[str, Any]:
    return {"cpu": machine.cpu_name(), "features": machine.features(), "threads": machine.threads()}


def model_files(folder: Path, name: str) -> list[Path]:
    """The model and the files that it keeps weights in, which are named after it."""
    return [path for path in sorted(folder.iterdir()) if path.name == name or path.name.startswith(f"{name}.")]


def told(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options in words: what is no number or text is called by its type."""

    def word(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, list | tuple):
            return [word(item) for item in value]
        if isinstance(value, Mapping) and len(value) < 64:
            return {str(name): word(item) for name, item in value.items()}
        return type(value).__qualname__

    return {name: word(value) for name, value in options.items()}


def skipped(job: Job, stage: str, reason: str) -> Report:
    """The stage left out: what it would have made is what came before it."""
    if stage == "optimize":
        copy_model(job.folder / FLOAT, job.folder / OPTIMIZED)
    if stage == "quantize":
        copy_model(job.folder / OPTIMIZED, job.folder / MODEL)
    return Report(stage, "skipped", True, fields={"reason": reason}, summary=reason)


def copy_model(source: Path, target: Path) -> None:
    """The model under another name, with the weights that lie beside it."""
    model = Model.load(source)
    model.save(target) if model.keeps_data_outside else files.copy(source, target)


def _convert(job: Job) -> Report:
    return sardonyx.convert(job.source, job.folder / FLOAT, **job.options("convert"))


def _check(job: Job) -> Report:
    return sardonyx.check(job.folder / FLOAT, **job.options("check"))


def _compare(job: Job) -> Report:
    return sardonyx.compare(job.source, job.folder / FLOAT, **{**job.opening, **job.options("compare")})


def _optimize(job: Job) -> Report:
    return sardonyx.optimize(job.folder / FLOAT, job.folder / OPTIMIZED, **job.options("optimize"))


def _quantize(job: Job) -> Report:
    options = job.options("quantize")
    if options["data"] is None:
        return skipped(job, "quantize", NO_DATA)
    try:
        return sardonyx.quantize(job.folder / OPTIMIZED, job.folder / MODEL, **options)
    except InputError as error:
        if type(error) is not InputError:  # the data or the metric are the caller's to put right
            raise
        return skipped(job, "quantize", error.message)  # quantised already, say


def _bench(job: Job) -> Report:
    """The framework first: it is what everything is compared with."""
    variants = {"framework": job.source, "float": job.folder / FLOAT, "model": job.folder / MODEL}
    if files.sha256(variants["float"]) == files.sha256(variants["model"]):
        del variants["float"]
    return sardonyx.bench(variants, **{**job.opening, **job.options("bench")})


def _golden(job: Job) -> Report:
    """Golden cases, the ledger of the first one, and where the model that is to be deployed runs."""
    options = job.options("golden")
    kept = keep_cases(job.folder / MODEL, job.folder / GOLDEN, **options)
    inputs = load(job.folder / GOLDEN).cases[0].inputs
    paths = {"float": job.folder / FLOAT, "optimized": job.folder / OPTIMIZED, "quantized": job.folder / MODEL}
    with Original(job.recognised) as original:
        answer = original.predict([inputs])[0]
        framework = answer if isinstance(answer, Outputs) else None
    ledger = keep_ledger(_distinct(paths), inputs, framework=framework, memory=options.get("memory", 1 << 30))
    runs_on = sardonyx.check(job.folder / MODEL, **job.options("check"))["runs_on"]
    return replace(kept, fields={**kept.fields, "ledger": ledger, "runs_on": runs_on})


def _distinct(paths: Mapping[str, Path]) -> dict[str, Path]:
    """The stages that changed something."""
    seen: dict[str, str] = {}
    for stage, path in paths.items():
        seen.setdefault(files.sha256(path), stage)
    return {stage: paths[stage] for stage in seen.values()}


STAGES: tuple[Stage, ...] = (
    Stage("convert", _convert, (SOURCE, DATA)),
    Stage("check", _check, (FLOAT,)),
    Stage("compare", _compare, (SOURCE, FLOAT, DATA)),
    Stage("optimize", _optimize, (FLOAT, DATA), measures=True, libraries=("onnxsim", "onnxslim")),
    Stage("quantize", _quantize, (OPTIMIZED, DATA), measures=True),
    Stage("bench", _bench, (SOURCE, FLOAT, MODEL, DATA), measures=True),
    Stage("golden", _golden, (SOURCE, FLOAT, OPTIMIZED, MODEL, DATA)),
)
_WITH_DATA = tuple(stage.name for stage in STAGES if DATA in stage.reads)
