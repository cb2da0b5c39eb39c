"""What bench says: rows, ratios in words, and the profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sardonyx.bench.profile import Profile
from sardonyx.bench.ratio import MARGIN
from sardonyx.measuring import busy, out_of_time
from sardonyx.report import Finding, Report, Table, human_bytes

if TYPE_CHECKING:
    from sardonyx.bench.measurement import Findings

CODES = {
    "not-judged": "The answers of a variant could not be held against the labels of the data.",
    "variant-failed": "A variant could not be measured; the others were.",
}
_WORDS = {"faster": "faster", "slower": "slower", "no-difference": "no difference shown"}
_TOP, _PARTS = 20, 4


def report_of(found: Findings, *, first: str, threads: int, plan_seconds: float) -> Report:
    """The report of a finished measurement."""
    batches = len(found.timings) > 1
    others = max((timings.others for timings in found.timings.values() if timings.others is not None), default=None)
    scores = found.scores
    findings = [
        *(Finding("warning", "variant-failed", name, why) for name, why in found.failures.items()),
        *(Finding("warning", "not-judged", name, why) for name, why in scores.reasons.items()),
        *out_of_time(found.late, f"give --seconds {found.needed:.2g} or more"),
        *busy(others),
    ]
    if scores.metric:
        found.variants = [{**row, scores.metric: scores.values.get(row["name"])} for row in found.variants]
    tables = [_latency_table(found.variants, batches, scores.metric)]
    if found.ratios:
        tables.append(_ratio_table(found.ratios, first, batches))
    for profile in found.profiles:
        tables += _profile_tables(profile, batches)
    fields: dict[str, Any] = {
        "variants": found.variants + [{"name": name, "reason": why} for name, why in found.failures.items()],
        "ratios": found.ratios,
        "threads": threads,
        "seconds": plan_seconds,
        "measured_seconds": found.seconds,
        "others": others,
        "margin": MARGIN,
    }
    if scores.metric:
        fields |= {"metric": scores.metric, "judged": scores.examples}
    if found.profiles:
        fields["profile"] = [profile.to_dict() for profile in found.profiles]
    return Report(
        "bench", "measured", True, fields=fields, findings=tuple(findings), tables=tuple(tables),
        summary=_summary(found, first, threads, batches), artifacts={"timings": found.timings},
    )  # fmt: skip


def milliseconds(seconds: float | None) -> str:
    """0.00123 -> '1.23 ms'."""
    if seconds is None:
        return ""
    value = seconds * 1e3
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"


def _latency_table(rows: Sequence[Mapping[str, Any]], batches: bool, metric: str = "") -> Table:
    judged = (metric,) if metric else ()
    columns = ("variant", "p50", "p95", "p99", "per second", "cold start", "peak memory", "size", *judged)
    cells = [
        (
            row["name"], *(milliseconds(row[name]) for name in ("p50", "p95", "p99")), _rate(row["throughput"]),
            milliseconds(row["cold_start"]), _bytes(row["memory"]), _bytes(row["size"]), *(row[name] for name in judged),
        )
        for row in rows
    ]  # fmt: skip
    return _with_batch("latency", columns, cells, rows, batches)


def _ratio_table(rows: Sequence[Mapping[str, Any]], first: str, batches: bool) -> Table:
    cells = [
        (
            row["to"], f"{row['ratio']:.2f}", f"{row['low']:.2f} to {row['high']:.2f}", _WORDS[row["verdict"]],
            f"{row['p50_ratio']:.2f}",
        )
        for row in rows
    ]  # fmt: skip
    columns = ("variant", "times as fast", "95 % interval", "verdict", "by p50 alone")
    return _with_batch(f"against {first}, by undisturbed calls of the same rounds", columns, cells, rows, batches)


def _with_batch(
    title: str,
    columns: tuple[str, ...],
    cells: Sequence[tuple[Any, ...]],
    rows: Sequence[Mapping[str, Any]],
    batches: bool,
) -> Table:
    """The table, with the batch size in the second column where there are several."""
    if not batches:
        return Table(title, columns, tuple(cells))
    wider = tuple((line[0], row["batch"], *line[1:]) for line, row in zip(cells, rows, strict=True))
    return Table(title, (columns[0], "batch", *columns[1:]), wider)


def _profile_tables(profile: Profile, batches: bool) -> list[Table]:
    where = f"{profile.variant}, batch {profile.batch}" if batches else profile.variant
    nodes = tuple(
        (node.name, node.op_type, milliseconds(node.seconds), f"{node.share:.1%}".replace("%", " %"), _origin(node))
        for node in profile.nodes[:_TOP]
    )
    operators = tuple(
        (row["op_type"], row["count"], milliseconds(row["seconds"]), f"{row['share']:.1%}".replace("%", " %"))
        for row in profile.operators()[:_TOP]
    )
    more = len(profile.nodes) - len(nodes)
    title = f"slowest nodes of {where}" + (f", of {len(profile.nodes)}" if more > 0 else "")
    return [
        Table(title, ("node", "operator", "time", "share", "made of"), nodes),
        Table(f"operators of {where}", ("operator", "count", "time", "share"), operators),
    ]


def _origin(node: Any) -> str:
    """What a fused node came from; nothing for a node that is as the model has it."""
    if node.came_from == (node.name,):
        return ""
    shown, more = node.came_from[:_PARTS], len(node.came_from) - _PARTS
    return " + ".join(shown) + (f" and {more} more" if more > 0 else "") or "added by onnxruntime"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bytes(count: int | None) -> str:
    return "" if count is None else human_bytes(count)


def _summary(found: Findings, first: str, threads: int, batches: bool) -> str:
    parts = []
    for row in found.ratios:
        at = f" at batch {row['batch']}" if batches else ""
        if row["verdict"] == "no-difference":
            parts.append(f"no difference shown between {row['to']} and {first}{at}")
        else:
            times = row["ratio"] if row["verdict"] == "faster" else 1 / row["ratio"]
            parts.append(f"{row['to']} is {times:.2f} times {row['verdict']} than {first}{at}")
    said = "; ".join(parts) or f"{first}: a call takes {milliseconds(found.variants[0]['p50'])}"
    return f"{said} ({threads} {'thread' if threads == 1 else 'threads'})"
