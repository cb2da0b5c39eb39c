"""What ship says in the end: the verdict in a sentence, the stages, and report.json with everything that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sardonyx.bundle.contents import FLOAT, MODEL, PAGE
from sardonyx.bundle.stages import Job
from sardonyx.bundle.work import SUFFIX, Done
from sardonyx.errors import InputError, RuntimeRefused
from sardonyx.files import sha256
from sardonyx.golden import GOLDEN, load
from sardonyx.measuring import CODES as CODES_OF_MEASURING
from sardonyx.report import Finding, Report, Table

CODES = {
    "slower-than-framework": "The shipped model answers more slowly than the framework that it was trained in.",
    "quantize-skipped": "The model was not quantised, because there was no data or because it was asked so.",
}
_SPEED = {"faster": "is faster than", "slower": "is slower than", "no-difference": "is as fast as"}


def report_of(job: Job, output: Path, stages: Sequence[Done], taken: Sequence[str]) -> Report:
    """The report of ship, before the files are written."""
    last = stages[-1]
    ok = last.report.ok
    rows = tuple((done.name, done.report.verdict, _seconds(done, taken), done.report.summary) for done in stages)
    return Report(
        "ship",
        "shipped" if ok else "not-shipped",
        ok,
        fields={
            "bundle": str(output) if ok else None,
            "source": _source(job.source),
            "config": job.settings.config,
            "stages": [{**done.report.to_dict(), "stage": done.name, "seconds": done.seconds} for done in stages],
            "resumed": list(taken),
            "metrics": metrics_of(stages),
        },
        findings=tuple(_findings(stages)) if ok else last.report.findings,
        tables=(
            Table("stages", ("stage", "verdict", "seconds", "what it found"), rows),
            *((variants,) if ok and (variants := variants_table(stages)) else ()),
            *(() if ok else last.report.tables),
        ),
        summary=sentence(output, stages),
    )


def whole_report(
    report: Report, stages: Sequence[Done], *, machine: Mapping[str, Any], provenance: Sequence[Any], folder: Path
) -> Report:
    """What report.json holds: the report, with the words and tables of every stage, the ledger and the graph."""
    golden = stages[-1].report
    held = [done.told() for done in stages]
    for stage in held:
        stage.pop("ledger", None)
    extra = {
        "bundle": ".", "summary": report.summary, "stages": held, "ledger": golden["ledger"], "runs_on": golden["runs_on"],
        "machine": dict(machine), "provenance": list(provenance), "graph": graph_of(folder, golden["ledger"]),
    }  # fmt: skip
    return Report(report.verb, report.verdict, report.ok, fields={**report.fields, **extra}, findings=report.findings)


def sentence(output: Path, stages: Sequence[Done]) -> str:
    """The verdict in a sentence, and where to look next."""
    last = stages[-1]
    if not last.report.ok:
        kept = f"; what is done lies in {output.name}{SUFFIX}, and the next run goes on from it" if stages[1:] else ""
        return f"{last.name} ended with '{last.report.verdict}', so nothing was written to {output}{kept}"
    found = {done.name: done.report for done in stages}
    speed = _against_framework(found)
    words = f"{output / MODEL}"
    if speed is not None:
        words += (
            f" {_SPEED[speed['verdict']]} the framework: {speed['ratio']:.2f} times as fast "
            f"({speed['low']:.2f} to {speed['high']:.2f})"
        )
    return f"{words}\nReport: {output / PAGE}\nVerify: sardonyx verify {output}"


def metrics_of(stages: Sequence[Done]) -> dict[str, Any]:
    """What was measured of the model to deploy: speed, the task's metric and what quantisation gained."""
    found = {done.name: done.report for done in stages}
    metrics: dict[str, Any] = {"speed": _against_framework(found)}
    for name in ("optimize", "quantize"):
        if name in found and found[name].verdict in ("optimized", "quantized"):
            metrics[name] = {"speedup": found[name]["speedup"]}
    quantized = found.get("quantize")
    if quantized is not None and "metric" in quantized.fields:
        metrics["task"] = quantized["metric"]
    compared = found.get("compare")
    if compared is not None and "outputs" in compared.fields:
        metrics["agreement"] = {"verdict": compared.verdict, "outputs": compared["outputs"]}
    return metrics


def variants_table(stages: Sequence[Done]) -> Table | None:
    """The bench's ratios against the framework, for the end of a run."""
    bench = next((done.report for done in stages if done.name == "bench"), None)
    if bench is None or not bench.fields.get("variants"):
        return None
    ratios = {row["to"]: row for row in bench["ratios"]}
    rows = tuple(
        (row["name"], f"{row['p50'] * 1e3:.3g} ms", *_ratio(ratios.get(row["name"])))
        for row in bench["variants"]
        if "p50" in row
    )
    columns = ("variant", "p50", "times as fast as the framework", "95 % interval", "by p50 alone")
    return Table("speed, by undisturbed calls of the same rounds", columns, rows)


def _ratio(row: Mapping[str, Any] | None) -> tuple[str, str, str]:
    if row is None:
        return "", "", ""
    medians = row.get("p50_ratio")  # none in what an earlier release has left to go on from
    return f"{row['ratio']:.2f}", f"{row['low']:.2f} to {row['high']:.2f}", f"{medians:.2f}" if medians else ""


def _against_framework(found: Mapping[str, Report]) -> dict[str, Any] | None:
    bench = found.get("bench")
    rows = bench.fields.get("ratios", []) if bench is not None else []
    return next((dict(row) for row in rows if (row["of"], row["to"]) == ("framework", "model")), None)


def _findings(stages: Sequence[Done]) -> list[Finding]:
    found = {done.name: done.report for done in stages}
    findings = [item for done in stages for item in done.report.findings or () if item.code == "runtime-optimizer"]
    speed = _against_framework(found)
    if speed is not None and speed["verdict"] == "slower":
        findings.append(Finding(
            "warning", "slower-than-framework", MODEL, f"it is {speed['ratio']:.2f} times as fast as the framework",
            "see the bench section of the report, or try --set optimize.level=machine",
        ))  # fmt: skip
    if found["quantize"].verdict == "skipped":
        findings.append(Finding("info", "quantize-skipped", MODEL, f"not quantised: {found['quantize']['reason']}"))
    return [*findings, *_of_measuring(stages)]


def _of_measuring(stages: Sequence[Done]) -> list[Finding]:
    """What the stages say about their measuring: time that ran out, and others that kept the machine busy."""
    return [
        replace(finding, where=done.name)
        for done in stages
        for finding in done.report.findings or ()
        if finding.code in CODES_OF_MEASURING
    ]


def graph_of(folder: Path, ledger: Mapping[str, Any]) -> dict[str, Any]:
    """The graph of the model to deploy as the view draws it, with everything that was found out about its nodes."""
    from sardonyx.view.graph import describe

    model, inputs = folder / MODEL, load(folder / GOLDEN).cases[0].inputs
    changed = sha256(model) != sha256(folder / FLOAT)
    overlays = ["error", "time", "precision", "provider", *(["diff"] if changed else [])]
    against = folder / FLOAT if changed else None
    try:
        return describe(model, overlays=overlays, against=against, data=inputs, ledger=ledger)
    except (InputError, RuntimeRefused) as error:  # an overlay that cannot be made must not cost the bundle
        return {**describe(model), "reason": error.message}


def _source(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else type(source).__qualname__


def _seconds(done: Done, taken: Sequence[str]) -> object:
    return "as before" if done.name in taken else done.seconds
