"""Measures which operators onnxruntime-web loads, and writes `src/sardonyx/check/_targets/web_operators.json`.

onnxruntime-web is installed by name into a folder of its own. In Node, its WebAssembly back end is asked to create a
session for many small models: the node cases of onnx's own conformance tests, and one model for every kernel, operator
version and type of the installed onnxruntime. The same models are loaded by the installed onnxruntime, so that a probe
which is itself invalid counts for neither. A kernel that is found and then objects to the probe's attributes is there.

    python scripts/measure_web_operators.py [VERSION]      # needs node, npm and the installed onnxruntime
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnx
import onnxruntime as ort
from onnx import TensorProto, TypeProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as native

TARGET = Path(__file__).parent.parent / "src" / "sardonyx" / "check" / "_targets" / "web_operators.json"
DEFAULT_VERSION = "1.30.0"
DOMAINS = ("", "ai.onnx.ml", "com.microsoft")
# The kernel was found and its constructor raised, in the words of the wheel and of the WebAssembly build.
FOUND = re.compile(r"Exception during initialization|/(providers|contrib_ops)/cpu/|op_node_proto_helper")
# Said by the JavaScript side of an input or an output, whatever the kernels do.
JAVASCRIPT = re.compile(r"unsupported data type: (\d+)")
PROBE = Path(__file__).with_suffix(".mjs")
CONTROL_FLOW = {
    "If": "g (bool c, float[1] x) => (float[1] y) { y = If (c) <then_branch = t () => (float[1] a) { a = Abs(x) }, "
    "else_branch = e () => (float[1] b) { b = Neg(x) }> }",
    "Loop": "g (int64 n, bool c, float[1] x) => (float[1] y) { y = Loop (n, c, x) "
    "<body = b (int64 i, bool k, float[1] a) => (bool l, float[1] d) { l = Identity(k) d = Abs(a) }> }",
    "Scan": "g (float[1] x, float[3, 1] s) => (float[1] y) { y = Scan <num_scan_inputs = 1, "
    "body = b (float[1] a, float[1] e) => (float[1] d) { d = Add(a, e) }> (x, s) }",
}
PYTHON = """
import sys
import onnxruntime as ort
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 4
folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for index in range(first, count):
    try:
        ort.InferenceSession(f"{folder}/{index}.onnx", options, providers=["CPUExecutionProvider"])
        reason = ""
    except Exception as error:
        reason = " ".join(str(error).split()) or "refused"
    print(f"{index}\\t{reason}", flush=True)
"""


@dataclass(frozen=True)
class Probe:
    """A model whose load answers for one version of one operator, with the types of its type parameters where chosen."""

    domain: str
    operator: str
    since: int
    types: dict[str, str]
    model: onnx.ModelProto


def conformance_probes() -> Iterator[Probe]:
    """One-node models of onnx's conformance tests, whose opset is that of the operator's version."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        nodes = case.model.graph.node
        domains = {entry.domain: entry.version for entry in case.model.opset_import}
        if len(nodes) != 1 or nodes[0].domain not in domains:
            continue
        try:
            schema = onnx.defs.get_schema(nodes[0].op_type, domains[nodes[0].domain], nodes[0].domain)
        except onnx.defs.SchemaError:
            continue
        yield Probe(nodes[0].domain, nodes[0].op_type, schema.since_version, {}, case.model)


def control_flow_probes() -> Iterator[Probe]:
    """If, Loop and Scan in each of their versions, which need graphs inside."""
    for operator, text in CONTROL_FLOW.items():
        for schema in native.get_all_operator_schema():
            if (schema.domain, schema.name) == ("", operator) and schema.since_version > 8:
                stamped = f'<ir_version: 8, opset_import: ["" : {schema.since_version}]> {text}'
                yield Probe("", operator, schema.since_version, {}, onnx.parser.parse_model(stamped))


def kernel_probes() -> Iterator[Probe]:
    """A model for every kernel of the installed onnxruntime, in every operator version and with every type it takes."""
    schemas = defaultdict(list)
    for schema in native.get_all_operator_schema():
        schemas[schema.domain, schema.name].append(schema)
    for kernel in native.get_all_opkernel_def():
        if kernel.domain not in DOMAINS:
            continue
        first, last = kernel.version_range
        for schema in schemas[kernel.domain, kernel.op_name]:
            if schema.since_version == first or (first < schema.since_version <= last < 2**31 - 1):
                yield from typed_probes(kernel, schema)


def typed_probes(kernel: Any, schema: Any) -> Iterator[Probe]:
    count = max((len(types) for types in kernel.type_constraints.values()), default=1)
    for index in range(count):
        chosen = {name: types[index % len(types)] for name, types in kernel.type_constraints.items()}
        yield Probe(kernel.domain, kernel.op_name, schema.since_version, chosen, one_node(schema, chosen))


def one_node(schema: Any, chosen: dict[str, str]) -> onnx.ModelProto:
    """The operator with its required inputs of unknown shape, its first output, and a plain value for each required attribute."""

    def values(formals: list[Any], prefix: str, count: int) -> list[onnx.ValueInfoProto]:
        made = []
        for index in range(count):
            formal = formals[min(index, len(formals) - 1)]
            word = chosen.get(formal.typeStr) or (
                formal.typeStr
                if "(" in formal.typeStr
                else sorted(formal.types, key=lambda t: (t != "tensor(float)", t))[0]
            )
            made.append(onnx.ValueInfoProto(name=f"{prefix}{index}", type=type_of(word)))
        return made

    required = sum(str(formal.option) != "FormalParameterOption.Optional" for formal in schema.inputs)
    inputs = values(schema.inputs, "x", max(schema.min_input, required))
    outputs = values(schema.outputs, "y", max(schema.min_output, 1))
    node = helper.make_node(
        schema.name,
        [v.name for v in inputs],
        [v.name for v in outputs],
        domain=schema.domain,
        **attributes(schema, chosen),
    )
    graph = helper.make_graph([node], "probe", inputs, outputs)
    imports = [helper.make_opsetid(schema.domain, schema.since_version)]
    if schema.domain:
        imports.append(helper.make_opsetid("", 18))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def attributes(schema: Any, chosen: dict[str, str]) -> dict[str, Any]:
    plain = {"INT": 1, "INTS": [1, 1], "FLOAT": 1.0, "FLOATS": [1.0], "STRING": "a", "STRINGS": ["a"]}
    made = {
        name: plain[str(attribute.type).rpartition(".")[2]]
        for name, attribute in schema.attributes.items()
        if attribute.required and str(attribute.type).rpartition(".")[2] in plain
    }
    if schema.name == "Cast" and schema.since_version >= 6:
        made["to"] = type_of(chosen.get("T2", "tensor(float)")).tensor_type.elem_type
    return made


def type_of(word: str) -> TypeProto:
    """'seq(tensor(float))' as a type without a shape."""
    kind, _, inner = word[:-1].partition("(") if "(" in word else ("tensor", "", word)
    made = TypeProto()
    if kind == "tensor":
        names = {"float": "FLOAT", "double": "DOUBLE"}
        made.tensor_type.elem_type = TensorProto.DataType.Value(names.get(inner, inner.upper()))
    elif kind == "sparse_tensor":
        made.sparse_tensor_type.elem_type = type_of(inner).tensor_type.elem_type
    elif kind == "map":
        key, _, value = inner.partition(",")
        made.map_type.key_type = TensorProto.DataType.Value(key.upper())
        made.map_type.value_type.CopyFrom(type_of(value.strip()))
    else:
        field = {"seq": made.sequence_type, "optional": made.optional_type}[kind]
        field.elem_type.CopyFrom(type_of(inner))
    return made


def answers_of(command: list[str], folder: Path, count: int, working: Path) -> list[str]:
    """For each model, nothing where it loads and the reason where it does not. A crash is a reason; the rest goes on."""
    answers: list[str] = []
    while len(answers) < count:
        words = [*command, str(folder), str(len(answers)), str(count)]
        done = subprocess.run(words, cwd=working, capture_output=True, text=True)
        answers += [line.split("\t", 1)[1] for line in done.stdout.splitlines() if "\t" in line]
        if done.returncode not in (0, 3):
            answers.append(f"crashed: {done.stderr.strip()[-200:]}")
    return answers


def loads_here(folder: Path, count: int) -> list[str]:
    return answers_of([sys.executable, "-W", "ignore", "-c", PYTHON], folder, count, folder)


def loads_on_web(package: Path, folder: Path, count: int) -> list[str]:
    shutil.copy(PROBE, package / "probe.mjs")
    return answers_of(["node", "probe.mjs"], folder, count, package)


def limits_of_web(package: Path, folder: Path) -> dict[str, int]:
    """The newest opset, ai.onnx.ml opset and IR version that load."""
    tried = [("opset", n) for n in range(18, 30)] + [("ml", n) for n in range(1, 8)] + [("ir", n) for n in range(8, 17)]
    for index, (kind, number) in enumerate(tried):
        name, domain = ("Binarizer", "ai.onnx.ml") if kind == "ml" else ("Abs", "")
        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
        graph = helper.make_graph([helper.make_node(name, ["x"], ["y"], domain=domain)], "g", values[:1], values[1:])
        imports = {"": 18} | ({"": number} if kind == "opset" else {"ai.onnx.ml": number} if kind == "ml" else {})
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*item) for item in imports.items()],
            ir_version=number if kind == "ir" else 8,
        )
        (folder / f"{index}.onnx").write_bytes(model.SerializeToString())
    answers = loads_on_web(package, folder, len(tried))
    return {
        kind: max(n for (k, n), answer in zip(tried, answers, strict=True) if k == kind and not answer)
        for kind in ("opset", "ml", "ir")
    }


def table(probes: list[Probe], here: list[str], web: list[str]) -> dict[str, Any]:
    """Operator versions that load on the web, those that load here and not there, and types that JavaScript refuses."""
    answers: dict[tuple[str, str, int], list[tuple[bool, dict[str, str]]]] = defaultdict(list)
    types_refused = set()
    for probe, at_home, away in zip(probes, here, web, strict=True):
        if javascript := JAVASCRIPT.search(away):
            types_refused.add(TensorProto.DataType.Name(int(javascript.group(1))).lower())
        elif not away or FOUND.search(away):
            answers[probe.domain, probe.operator, probe.since].append((True, probe.types))
        elif not at_home or FOUND.search(at_home):
            answers[probe.domain, probe.operator, probe.since].append((False, probe.types))
    loads: dict[str, dict[str, list[int]]] = {}
    refused: dict[str, dict[str, dict[str, list[dict[str, str]]]]] = {}
    for (domain, operator, since), given in sorted(answers.items()):
        found = any(loaded for loaded, _ in given)
        if found:
            loads.setdefault(domain, {}).setdefault(operator, []).append(since)
        # No list of types means that it was refused with every type.
        without = [types for loaded, types in given if not loaded]
        if without:
            refused.setdefault(domain, {}).setdefault(operator, {})[str(since)] = without if found else []
    return {"types_refused": sorted(types_refused), "refused": refused, "loads": loads}


def main() -> None:
    version = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_VERSION
    with tempfile.TemporaryDirectory() as scratch:
        package, folder = Path(scratch) / "package", Path(scratch) / "models"
        package.mkdir()
        folder.mkdir()
        (package / "package.json").write_text('{"private": true}')
        subprocess.run(["npm", "install", "--silent", f"onnxruntime-web@{version}"], cwd=package, check=True)
        healthy = next(p for p in conformance_probes() if p.operator == "Abs")
        (folder / "healthy.onnx").write_bytes(healthy.model.SerializeToString())
        limits = limits_of_web(package, folder)
        every = (*conformance_probes(), *control_flow_probes(), *kernel_probes())
        probes = [probe for probe in every if probe.domain or probe.since <= limits["opset"]]
        for index, probe in enumerate(probes):
            (folder / f"{index}.onnx").write_bytes(probe.model.SerializeToString())
        here, web = loads_here(folder, len(probes)), loads_on_web(package, folder, len(probes))
        measured = {
            "release": version,
            "compared_with": ort.__version__,
            "limits": limits,
            "models": counts(here, web),
            **table(probes, here, web),
        }
    TARGET.write_text(dumped(measured))
    print(measured["models"])


def counts(here: list[str], web: list[str]) -> dict[str, int]:
    pairs = Counter((not at_home, not away) for at_home, away in zip(here, web, strict=True))
    names = {
        "both": (True, True),
        "neither": (False, False),
        "installed_only": (True, False),
        "web_only": (False, True),
    }
    return {name: pairs[key] for name, key in names.items()}


def dumped(measured: dict[str, Any]) -> str:
    """JSON with a line for each operator, so that a difference between releases can be read."""
    lines = []
    for key, value in measured.items():
        if key not in ("loads", "refused"):
            lines.append(f'  "{key}": {json.dumps(value)}')
            continue
        domains = [
            f'    "{domain}": {{\n'
            + ",\n".join(f'      "{name}": {json.dumps(found)}' for name, found in operators.items())
            + "\n    }"
            for domain, operators in value.items()
        ]
        lines.append(f'  "{key}": {{\n' + ",\n".join(domains) + "\n  }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
