"""Mutation testing of the proof: faults that show only under a condition are seeded into right exports, and must be found.

    PYTHONPATH=tests python -m falsify.mutations [--json out.json] [--only PATTERN] [--share K/N] [--markdown]

Every fault has a witness: an input that the original accepts, on which the right export agrees with it and the faulty one does
not. A fault is found if `convert`, given the faulty export, writes nothing, or says with a finding that such values differ.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import sardonyx
from falsify import mutation_weights
from falsify.mutation_bases import BASES, Arrays, Base
from falsify.mutation_conditions import CONDITIONS, Condition, Writer, rank_of
from sardonyx.convert import tournament
from sardonyx.convert.inputs import Inputs, settle
from sardonyx.signature import TensorSpec
from sardonyx.sources import Exported, Original, Outputs, recognise

COUNT = 300
NEEDED = 0.95
# How the condition of a fault is written: as a comparison in the export's graph, as arithmetic there, as a branch of the
# original's own code that the export forgot, or as a changed entry of a table, with no condition at all.
WAYS = ("graph", "arithmetic", "code", "weights")
WRONG = ("offset", "negated", "constant", "scaled")


@dataclass(frozen=True)
class Fault:
    """A fault: where, under which condition, and how the answer is wrong there."""

    base: str
    family: str
    condition: str
    input: str
    way: str
    wrong: str

    def __str__(self) -> str:
        return f"{self.base}: {self.condition} ({self.input}), {self.way}, {self.wrong}"


@dataclass(frozen=True)
class Seeded:
    """A fault in place: the model to hold against the export, the faulty file, and the witness."""

    fault: Fault
    original: Any  # None: the base's own
    path: Path
    witness: Arrays


@dataclass(frozen=True)
class Result:
    """What the product said about a fault."""

    fault: Fault
    found: bool
    how: str
    seconds: float


class Workshop:
    """The bases, opened and exported once each, and the faults made from them. Use it in a `with` block."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mutations-")
        self.folder = Path(self._folder.name)
        self._open: dict[str, tuple[Original, Inputs, Path]] = {}
        self._count = 0

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        for original, _, _ in self._open.values():
            original.__exit__()
        self._folder.cleanup()

    def base(self, base: Base) -> tuple[Original, Inputs, Path]:
        """The base opened, its inputs, and its right export."""
        if base.name not in self._open:
            original = Original(recognise(built(base)), timeout=300).__enter__()
            settled = settle(base.inputs, base.example(), original.describe())
            exported = original.export(
                _route(original, base.route), self.folder / f"{len(self._open)}.onnx", example=settled.example,
                dynamic=settled.dynamic, opset=18, input_names=[], output_names=[], training=False,
            )  # fmt: skip
            assert exported.path is not None, f"{base.name}: {exported.failure}"
            self._open[base.name] = (original, settled, exported.path)
        return self._open[base.name]

    def file(self) -> Path:
        self._count += 1
        return self.folder / f"fault{self._count}.onnx"

    def seed(self, fault: Fault) -> Seeded | None:
        """The fault in place, or None if it cannot be: the types do not fit, or no input shows it."""
        base = next(base for base in BASES if base.name == fault.base)
        original, inputs, right = self.base(base)
        if fault.way == "weights":
            seeded = self._weights(fault, original, inputs, right)
        else:
            seeded = self._conditional(fault, base, inputs, right)
        return seeded if seeded is not None and self._shows(seeded, original, inputs.example, right) else None

    def _weights(self, fault: Fault, original: Original, inputs: Inputs, right: Path) -> Seeded | None:
        model = onnx.load(right)
        witness = mutation_weights.change_of(fault.condition, inputs.example)(model)
        path = self.file()
        onnx.save(model, path)
        return None if witness is None else Seeded(fault, None, path, witness(original))

    def _conditional(self, fault: Fault, base: Base, inputs: Inputs, right: Path) -> Seeded | None:
        condition = next(item for item in CONDITIONS if item.name == fault.condition)
        witness = condition.witness(inputs.example, fault.input)
        if fault.way == "code":
            return Seeded(fault, written(base, condition, fault, self.folder), right, witness)
        spec = next(spec for spec in inputs.signature.inputs if spec.name == fault.input)
        model = onnx.load(right)
        insert(model, condition, spec, wrong=fault.wrong, hidden=fault.way == "arithmetic")
        path = self.file()
        onnx.save(model, path)
        return Seeded(fault, None, path, witness)

    def _shows(self, seeded: Seeded, original: Original, example: Arrays, right: Path) -> bool:
        """Whether the fault is real: unseen on the example, seen on the witness, where the right export is right."""
        if seeded.original is not None:
            with Original(recognise(seeded.original), timeout=300) as guarded:
                answers = guarded.predict([example, seeded.witness])
            exports = [answered(seeded.path, example), answered(seeded.path, seeded.witness)]
            plain = original.predict([seeded.witness])[0]
            real = isinstance(plain, Outputs) and same(plain.arrays, exports[1])
        else:
            answers = original.predict([example, seeded.witness])
            exports = [answered(seeded.path, example), answered(seeded.path, seeded.witness)]
            rights = answered(right, seeded.witness)
            real = isinstance(answers[1], Outputs) and same(answers[1].arrays, rights)
        if not real or not all(isinstance(answer, Outputs) for answer in answers):
            return False
        first, second = ([np.asarray(a) for a in answer.arrays] for answer in answers if isinstance(answer, Outputs))
        return same(first, exports[0]) and not same(second, exports[1])

    def found(self, seeded: Seeded) -> Result:
        """Whether `convert` turns the faulty export down, or says that it differs on such values."""
        base = next(base for base in BASES if base.name == seeded.fault.base)
        standing, inputs, _ = self.base(base)
        started = time.perf_counter()
        if seeded.original is None:
            report = self._converted(standing.source, inputs, seeded.path, standing)
        else:
            report = self._converted(seeded.original, inputs, seeded.path, None)
        seconds = time.perf_counter() - started
        if not report.ok:
            (candidate,) = report["candidates"]
            told = str(candidate["reason"])
            return Result(seeded.fault, self._proves(seeded, candidate["counterexample"]), told, seconds)
        findings = [f"{finding.code}: {finding.message}" for finding in report.findings or ()]
        named = [text for text in findings if _is_about(seeded.fault, text)]
        return Result(seeded.fault, bool(named), "; ".join(named or findings), seconds)

    def _proves(self, seeded: Seeded, path: str) -> bool:
        """Whether the counterexample shows this fault, and not another of the export that it was seeded into."""
        base = next(base for base in BASES if base.name == seeded.fault.base)
        original, inputs, right = self.base(base)
        with np.load(path) as file:
            arrays = {spec.name: file[spec.name] for spec in inputs.signature.inputs}
        if seeded.original is None:
            return not same(answered(right, arrays), answered(seeded.path, arrays))
        with Original(recognise(seeded.original), timeout=300) as guarded:
            (one,), (two,) = guarded.predict([arrays]), original.predict([arrays])
        return isinstance(one, Outputs) and isinstance(two, Outputs) and not same(one.arrays, two.arrays)

    def accepts_right_export(self, base: Base) -> str:
        """What `convert` says against the right export of a base: "" if nothing."""
        standing, inputs, right = self.base(base)
        report = self._converted(standing.source, inputs, right, standing)
        return "" if report.ok else str(report["candidates"][0]["reason"])

    def _converted(self, source: Any, inputs: Inputs, path: Path, standing: Original | None) -> Any:
        """The report of `convert`, to which every export is the given file."""
        specs = [str_of(spec) for spec in inputs.signature.inputs]
        with _exported_as(path, standing):
            return sardonyx.convert(
                source,
                self.folder / "winner.onnx",
                inputs=specs,
                example=inputs.example,
                route=recognise(source).routes()[0],
            )


def _is_about(fault: Fault, text: str) -> bool:
    """Whether a finding says that the export differs on the kind of value behind which the fault is."""
    words = {"missing value": "NaN", "infinity": "infinity", "large integer": "= 2147483"}
    return text.startswith("edge-values") and words.get(fault.family, "no other kind") in text


class Standing:
    """A standing original, as if it had just been opened from a live object: nothing is gained by opening it again."""

    def __init__(self, held: Original, export: Any) -> None:
        self._held, self.export = held, export
        self.source = replace(held.source, value=held)

    def __enter__(self) -> Standing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._held, name)


@contextmanager
def _exported_as(path: Path, standing: Original | None) -> Iterator[None]:
    """Every export that `convert` asks for is the given file, of the standing original if there is one."""

    def export(route: str, out: Path, **_: Any) -> Exported:
        out.write_bytes(path.read_bytes())
        return Exported(route, out, 0.0)

    if standing is None:
        with patch.object(Original, "export", lambda _, route, out, **__: export(route, out)):
            yield
    else:
        with patch.object(tournament, "Original", lambda *_, **__: Standing(standing, export)):
            yield


def built(base: Base) -> Any:
    """The model of a base, with the same weights every time."""
    np.random.seed(0)
    if base.written_in_torch:
        import torch

        torch.manual_seed(0)
        return base.factory().eval()
    return base.factory()


def _route(original: Original, wanted: str) -> str:
    routes = original.source.routes()
    return wanted if wanted in routes else routes[0]


def str_of(spec: TensorSpec) -> str:
    return f"{spec.name}={spec.dtype}[{','.join(str(dim) for dim in spec.shape or ())}]"


def insert(model: onnx.ModelProto, condition: Condition, spec: TensorSpec, *, wrong: str, hidden: bool) -> None:
    """Replaces the first number output by itself, or by a wrong answer where the condition holds."""
    graph = model.graph
    kinds = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32)
    output = next(value for value in reversed(graph.output) if value.type.tensor_type.elem_type in kinds)
    kind = output.type.tensor_type.elem_type
    inner = f"{output.name}_right"
    for node in graph.node:
        node.output[:] = [inner if name == output.name else name for name in node.output]
        node.input[:] = [inner if name == output.name else name for name in node.input]
    if spec.dtype == "string":  # RegexFullMatch is of opset 20, with which no operator of these models changed
        for entry in model.opset_import:
            entry.version = max(entry.version, 20) if not entry.domain else entry.version
    writer = Writer(graph, hidden=hidden)
    mask = condition.mask(writer, spec.name, spec)
    rank = len(output.type.tensor_type.shape.dim)
    if condition.rows and rank_of(spec) and rank:
        mask = writer.over_rows(mask)
        if rank > 1:
            mask = writer.op("Unsqueeze", mask, writer.constant(list(range(1, rank)), np.int64))
    else:
        mask = writer.over_all(mask)
    node = onnx.helper.make_node("Where", [mask, _wrong(writer, inner, kind, wrong), inner], [output.name])
    graph.node.append(node)


def _wrong(writer: Writer, right: str, kind: int, wrong: str) -> str:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    integers = np.issubdtype(dtype, np.integer)
    if wrong == "negated":
        return writer.op("Sub", writer.op("Neg", right), writer.constant(1, dtype))
    if wrong == "constant":
        filling = numpy_helper.from_array(np.array([7], dtype))
        return writer.op("ConstantOfShape", writer.op("Shape", right), value=filling)
    if wrong == "scaled" and not integers:
        return writer.op("Add", writer.op("Mul", right, writer.constant(1.3, dtype)), writer.constant(0.2, dtype))
    return writer.op("Add", right, writer.constant(1, dtype))


GUARDED = '''"""A model with a branch that its export forgot."""

import torch
from torch import nn

from falsify.mutation_bases import BASES
from falsify.mutations import built


class Guarded(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = built(next(base for base in BASES if base.name == {base!r}))

    def forward(self, {arguments}):
        answer = self.inner({arguments})
        if {condition}:
            {wrong}
        return answer
'''
IN_CODE = {
    "offset": "{y} + 1",
    "negated": "-{y} - 1",
    "constant": "torch.full_like({y}, 7)",
    "scaled": "{y} * 1.3 + 0.2",
}


def written(base: Base, condition: Condition, fault: Fault, folder: Path) -> Any:
    """The base behind a branch of Python, from a file of its own, so that the lines of its code can be watched."""
    arguments = ", ".join(spec.partition("=")[0] for spec in base.inputs)
    pair = base.name == "counters"  # the only one that answers with two tensors
    change = IN_CODE["offset" if fault.wrong == "scaled" and pair else fault.wrong]
    wrong = f"answer = answer[0], {change.format(y='answer[1]')}" if pair else f"answer = {change.format(y='answer')}"
    text = GUARDED.format(
        base=base.name, arguments=arguments, condition=condition.code.format(x=fault.input), wrong=wrong
    )
    name = "guarded_" + re.sub(r"\W", "_", f"{base.name}_{condition.name}_{fault.input}_{fault.wrong}")
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a file that was just written"
    assert spec.loader is not None, "a file that was just written"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.Guarded().eval()


def answered(path: Path, arrays: Arrays) -> list[Any] | None:
    """What plain onnxruntime answers, or None."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        given = {item.name: arrays[item.name] for item in session.get_inputs()}
        return session.run(None, {name: a.astype(object) if a.dtype.kind in "US" else a for name, a in given.items()})
    except Exception:  # noqa: BLE001  onnxruntime's own errors have no common parent
        return None


def same(one: Any, two: Any) -> bool:
    """Whether two answers agree: floats to a thousandth of their size, everything else exactly."""
    if one is None or two is None:
        return False
    return all(_same(np.asarray(a), np.asarray(b)) for a, b in zip(one, two, strict=True))


def _same(one: Any, two: Any) -> bool:
    if one.dtype.kind != "f":
        return bool(np.array_equal(one.astype(str).ravel(), two.astype(str).ravel()))
    a, b = (np.asarray(array, np.float64).ravel() for array in (one, two))
    scale = np.abs(a[np.isfinite(a)]).max(initial=1e-3)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-3, atol=1e-3 * scale, equal_nan=True))


def candidates() -> list[Fault]:
    """Every combination that the types allow, in an order that mixes conditions, bases and ways."""
    found: list[Fault] = []
    for base in BASES:
        specs = _specs(base)
        for condition in CONDITIONS:
            for spec in filter(condition.takes, specs):
                for way in ("graph", "arithmetic", "code"):
                    if way == "arithmetic" and (condition.needle or spec.dtype in ("string", "bool")):
                        continue
                    if way == "code" and not (base.written_in_torch and condition.code):
                        continue
                    found.append(Fault(base.name, condition.family, condition.name, spec.name, way, ""))
        found += [
            Fault(base.name, family, name, "", "weights", "changed")
            for name, family in mutation_weights.names(base.name)
        ]
    order = np.random.default_rng(0).permutation(len(found))
    mixed = [found[index] for index in order]
    return [fault if fault.wrong else replace(fault, wrong=WRONG[i % len(WRONG)]) for i, fault in enumerate(mixed)]


@functools.cache
def _specs(base: Base) -> list[TensorSpec]:
    from sardonyx.signature import Signature

    if base.inputs:
        return list(Signature.parse(base.inputs).inputs)
    example = base.example()
    words = {"O": "string"}
    return [
        TensorSpec(name, words.get(array.dtype.kind, str(array.dtype)), ("batch", *array.shape[1:]))
        for name, array in example.items()
    ]


def balanced(faults: list[Fault]) -> Iterator[Fault]:
    """The faults so that every family comes as often as it can: one of each, then a second of each, and so on."""
    families: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        families.setdefault((fault.family, fault.way), []).append(fault)
    while any(families.values()):
        for waiting in families.values():
            if waiting:
                yield waiting.pop(0)


def seeded(workshop: Workshop, count: int = COUNT, only: str = "") -> Iterator[Seeded]:
    """`count` faults whose witnesses hold, of those whose words match the pattern `only`."""
    for fault in balanced(candidates()):
        if count == 0:
            return
        if not re.search(only, str(fault)):
            continue
        placed = workshop.seed(fault)
        if placed is not None:
            count -= 1
            yield placed


def markdown(results: list[Result]) -> str:
    """The share found of every family, for the page about what the search finds."""
    lines = ["| wrong only for | seeded | found | not found |", "|---|---|---|---|"]
    for family in sorted({result.fault.family for result in results}):
        mine = [result for result in results if result.fault.family == family]
        missed = "; ".join(f"{r.fault.base}, {r.fault.condition} ({r.fault.way})" for r in mine if not r.found)
        lines.append(f"| {family} | {len(mine)} | {sum(r.found for r in mine)} | {missed} |")
    found = sum(result.found for result in results)
    lines.append(f"| **all** | {len(results)} | {found} ({found / max(1, len(results)):.1%}) | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--only", default="", help="run only faults whose words match this pattern")
    parser.add_argument("--share", default="0/1", help="K/N: every N-th fault, starting with the K-th")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--list", action="store_true", help="seed and check the faults, and search for none")
    given = parser.parse_args()
    first, every = map(int, given.share.split("/"))
    results: list[Result] = []
    with Workshop() as workshop:
        for index, placed in enumerate(seeded(workshop, given.count, given.only)):
            if index % every != first:
                continue
            result = Result(placed.fault, False, "", 0.0) if given.list else workshop.found(placed)
            results.append(result)
            line = (
                f"{'found' if result.found else 'MISSED':7}{result.seconds:5.1f} s  {placed.fault}  {result.how[:160]}"
            )
            print(line, flush=True)  # noqa: T201
            if given.json:
                given.json.write_text(json.dumps([asdict(item) for item in results], indent=1))
    print(markdown(results))  # noqa: T201


if __name__ == "__main__":
    main()
