"""What inspect shows to people: tables, what the counts leave out, and one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sardonyx.report import Finding, Table, human_bytes

Fields = Mapping[str, Any]

CODES = {
    "branch-costlier": "The inputs decide which branch runs; the costlier one is counted.",
    "empty-at-this-size": "A product has no elements at the sizes that were counted for.",
    "loop-once": "How often a loop runs depends on the inputs; its body is counted once.",
    "macs-at-least": "Some nodes are not counted, for lack of shapes or of a rule.",
    "memory-at-least": "Activations of unknown size are left out.",
}

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def tables(fields: Fields) -> tuple[Table, ...]:
    found = [_overview(fields), _ends(fields), _operators(fields), _tensors(fields)]
    return tuple(table for table in found if table.rows)


def notes(fields: Fields) -> tuple[Finding, ...]:
    """What the counts leave out, and how to get it in."""
    words = " ".join(f"--size {name}=N" for name in fields["sizes"])
    hint = f"give sizes that the model takes: {words}" if words else ""
    found = []
    if fields["uncounted"]:
        kinds = Counter(row["operator"] for row in fields["uncounted"])
        listed = ", ".join(f"{count} {name}" for name, count in kinds.most_common())
        found.append(_note("macs-at-least", f"MACs not counted, for lack of shapes or of a rule: {listed}", hint))
    if fields["empty"]:
        message = f"{_plural(fields['empty'], 'product has', 'products have')} no elements at these sizes"
        found.append(_note("empty-at-this-size", message, hint))
    if fields["loops_once"]:
        message = (
            f"{_plural(fields['loops_once'], 'loop', 'loops')} counted once: how often it runs depends on the inputs"
        )
        found.append(_note("loop-once", message))
    if fields["branches"]:
        message = f"{_plural(fields['branches'], 'If', 'Ifs')} decided by the inputs: the costlier branch is counted"
        found.append(_note("branch-costlier", message))
    if fields["memory"]["unsized"]:
        message = f"{_plural(fields['memory']['unsized'], 'activation', 'activations')} of unknown size left out"
        found.append(_note("memory-at-least", message, hint))
    return tuple(found)


def sentence(fields: Fields) -> str:
    memory = fields["memory"]
    return (
        f"{amount(fields['parameters'])} parameters, {_macs(fields)} MACs, "
        f"{_least(not memory['unsized'])}{human_bytes(memory['activations_peak'])} of activations at once"
    )


def amount(count: int) -> str:
    """1234567 -> '1.23 M'. Three digits say enough; the JSON has them all."""
    for size, unit in _UNITS:
        scaled = count / size
        if scaled >= 0.9995:
            return f"{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f} {unit}"
    return str(count)


def shown(shape: Iterable[int | str | None] | None) -> str:
    return "?" if shape is None else "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def _overview(fields: Fields) -> Table:
    memory = fields["memory"]
    at_once, in_all = human_bytes(memory["activations_peak"]), human_bytes(memory["activations_total"])
    rows = (
        ("opset", ", ".join(_opset(domain, version) for domain, version in fields["opsets"].items())),
        ("IR version", str(fields["ir_version"])),
        ("producer", fields["producer"] or "unknown"),
        ("made by", " -> ".join(fields["history"])),
        ("sizes", ", ".join(f"{name}={size}" for name, size in fields["sizes"].items())),
        ("parameters", f"{fields['parameters']:,}"),
        ("weights", human_bytes(memory["weights"])),
        ("MACs", _macs(fields)),
        ("activations", f"{_least(not memory['unsized'])}{at_once} at once, {in_all} in all"),
        (
            "nodes",
            f"{fields['nodes']:,}" + (f", {fields['functions']} functions written out" if fields["functions"] else ""),
        ),
    )
    return Table(fields["path"] or "model", ("", ""), tuple(row for row in rows if row[1]))


def _ends(fields: Fields) -> Table:
    rows = [
        (word, row["name"], row["dtype"], shown(row["shape"]), shown(row["sizes"]))
        for word, side in (("in", "inputs"), ("out", "outputs"))
        for row in fields[side]
    ]
    return Table("inputs and outputs", ("", "name", "type", "shape", "counted as"), tuple(rows))


def _operators(fields: Fields) -> Table:
    total = fields["macs"]
    rows = [
        (
            row["operator"],
            row["count"],
            amount(row["macs"]) if row["macs"] else "",
            f"{row['macs'] / total:.1%}" if row["macs"] else "",
            human_bytes(row["bytes"]) if row["bytes"] else "",
        )
        for row in fields["operators"]
    ]
    return Table("operators", ("operator", "count", "MACs", "share", "bytes moved"), tuple(rows))


def _tensors(fields: Fields) -> Table:
    rows = [
        (row["name"], row["kind"], row["dtype"], shown(row["shape"]), human_bytes(row["bytes"]))
        for row in fields["tensors"]
    ]
    return Table("biggest tensors", ("name", "kind", "type", "shape", "bytes"), tuple(rows))


def _macs(fields: Fields) -> str:
    return _least(fields["macs_exact"]) + amount(fields["macs"])


def _least(exact: bool) -> str:
    return "" if exact else "at least "


def _opset(domain: str, version: int) -> str:
    return str(version) if domain == "ai.onnx" else f"{domain} {version}"


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _note(code: str, message: str, hint: str = "") -> Finding:
    return Finding("info", code, "", message, hint)
