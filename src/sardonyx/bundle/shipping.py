"""From a trained model to a bundle: each stage in order, what was done before taken over, and the report at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sardonyx import files, history, progress
from sardonyx.bundle import page
from sardonyx.bundle.contents import MODEL, OPTIMIZED, PAGE, RECORD, REPORT, seal
from sardonyx.bundle.settings import Settings
from sardonyx.bundle.stages import STAGES, Job, Stage, machine_now, model_files, skipped, told
from sardonyx.bundle.summing import metrics_of, report_of, whole_report
from sardonyx.bundle.work import Done, Work, at_work
from sardonyx.errors import InputError
from sardonyx.model import Model
from sardonyx.report import Report, plain

AS_ASKED = "left out, as asked"


def ship_source(source: Any, output: Path, *, data: Any, settings: Settings, label: str | None = None) -> Report:
    """Runs the stages in a folder beside `output`, which it replaces only when all of them end well."""
    output = files.check_folder(output, known_by=RECORD)
    with at_work(output.absolute()) as work:
        job = Job(source, work.made, data, settings, label)
        taken, stages = _run_stages(job, work)
        try:
            report, record = _summed(job, work, output, taken, stages)
        except _STRANGE:
            if not taken:
                raise
            progress.say("what lay in the place of an earlier run does not fit together; every stage is run anew")
            work.forget()
            taken, stages = _run_stages(job, work)
            report, record = _summed(job, work, output, taken, stages)
        if not report.ok:
            return report
        work.finish()
    return replace(report, fields={**report.fields, "digest": record["digest"]})


# What stages that were taken over may bring about: a stranger may have written them.
_STRANGE = (InputError, KeyError, TypeError, ValueError, AttributeError, IndexError)


def _summed(
    job: Job, work: Work, output: Path, taken: list[str], stages: list[Done]
) -> tuple[Report, Mapping[str, Any]]:
    """The report, and the record of the bundle where the stages ended well."""
    report = report_of(job, output, stages, taken)
    return report, _write(work, stages, report) if report.ok else {}


def _run_stages(job: Job, work: Work) -> tuple[list[str], list[Done]]:
    """The stages up to the first that ends badly, and the names of those that were taken over from an earlier run."""
    taken, stages = list[str](), list[Done]()
    for number, stage in enumerate(STAGES, 1):
        inputs = stage.inputs(job)
        key = stage.key(job, inputs)
        done = work.take(stage.name, key)
        if done is not None:
            taken.append(stage.name)
        else:
            work.clear([name for earlier in stages for name in earlier.outputs])
            done = _run_stage(stage, job, work, f"{number}/{len(STAGES)} {stage.name}", (key, inputs, stages))
        stages.append(done)
        again = " (as before)" if done.name in taken else f" in {done.seconds:.1f} s"
        progress.say(
            f"{number}/{len(STAGES)} {stage.name}: {done.report.verdict}{again}  {done.report.summary}".rstrip()
        )
        if not done.report.ok:
            break
        work.keep(done)
    return taken, stages


def _run_stage(
    stage: Stage, job: Job, work: Work, title: str, known: tuple[str | None, Mapping[str, str | None], list[Done]]
) -> Done:
    key, inputs, earlier = known
    with progress.task(title):
        started = time.perf_counter()
        report = skipped(job, stage.name, AS_ASKED) if stage.name in job.settings.skip else stage.run(job)
        seconds = time.perf_counter() - started
    claimed = {name for done in earlier for name in done.outputs}
    outputs = {path.name: files.sha256(path) for path in sorted(work.made.iterdir()) if path.name not in claimed}
    options = {} if stage.name in job.settings.skip else told(job.options(stage.name))
    report = without_place(report, work.made)
    return Done(stage.name, key, report, seconds, inputs, options, stage.versions(job), outputs)


def without_place(report: Report, folder: Path) -> Report:
    """The report with files called by their names in the bundle: the folder they were made in is gone when it is read."""

    def bare(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(f"{folder}/", "").replace(str(folder), ".")
        if isinstance(value, Mapping):
            return {key: bare(item) for key, item in value.items()}
        return [bare(item) for item in value] if isinstance(value, list | tuple) else value

    tables = tuple(replace(table, rows=tuple(map(tuple, bare(table.rows)))) for table in report.tables)
    findings = tuple(
        replace(item, where=bare(item.where), message=bare(item.message), hint=bare(item.hint))
        for item in report.findings
    )
    fields = bare(dict(report.fields))
    return replace(report, fields=fields, summary=bare(report.summary), tables=tables, findings=findings, artifacts={})


def _write(work: Work, stages: list[Done], report: Report) -> dict[str, Any]:
    """The reports and the record into the made folder, from which everything else is removed."""
    kept = {name for done in stages for name in done.outputs} - _spare(work.made, stages)
    work.clear(list(kept))
    model = Model.load(work.made / MODEL)
    machine, provenance = machine_now(), [done.provenance() for done in stages]
    whole = whole_report(report, stages, machine=machine, provenance=provenance, folder=work.made)
    files.write_text(work.made / REPORT, whole.to_json(indent=1))
    files.write_text(work.made / PAGE, page.render(whole.to_dict()))
    signature = model.signature
    golden = stages[-1].report
    facts = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": report.fields["source"],
        "signature": {
            "inputs": [spec.to_dict() for spec in signature.inputs],
            "outputs": [spec.to_dict() for spec in signature.outputs],
        },
        "opset": model.opset,
        "ir_version": model.ir_version,
        "stages": [{"stage": d.name, "verdict": d.report.verdict, "seconds": d.seconds} for d in stages],
        "provenance": provenance,
        "metrics": metrics_of(stages),
        "tolerances": {"noise": golden["noise"], "cases": golden["tolerances"]},
        "versions": history.versions(),
        "machine": machine,
    }
    return seal(work.made, plain(facts))


def _spare(folder: Path, stages: list[Done]) -> set[str]:
    """The files of the optimised model, where it is the model to deploy or the float one anyway."""
    verdicts = {done.name: done.report.verdict for done in stages}
    if verdicts["quantize"] == "quantized" and verdicts["optimize"] == "optimized":
        return set()
    return {path.name for path in model_files(folder, OPTIMIZED)}
