"""Which tensor of the candidate is which tensor of the reference."""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from sardonyx.compare.flow import Flow, Step

Pairs = dict[str, str]

COMMUTATIVE = frozenset(("Add", "Mul", "Max", "Min", "Sum", "Mean", "And", "Or", "Xor", "Equal"))
# What exporters write on a node about where it came from, the most exact first.
INSTALLED = ("site-packages", "dist-packages")
METADATA_KEYS = ("pkg.torch.onnx.name_scopes", "namespace", "pkg.torch.onnx.fx_node")


@dataclass
class Alignment:
    """Candidate tensor to reference tensor, and the way each pair was found.

    Those in `same` are computed alike from the same inputs: they need no look.
    """

    pairs: Pairs = field(default_factory=dict)
    same: set[str] = field(default_factory=set)
    ways: dict[str, str] = field(default_factory=dict)

    def add(self, found: Mapping[str, str], way: str) -> None:
        """Keeps what is new: a pair found earlier was found by a surer way."""
        taken = set(self.pairs.values())
        fresh = {mine: theirs for mine, theirs in found.items() if mine not in self.pairs and theirs not in taken}
        self.pairs |= fresh
        self.ways |= dict.fromkeys(fresh, way)


def align(reference: Flow, candidate: Flow, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> Alignment:
    """Tensors that belong together, given which inputs and outputs (candidate to reference) do."""
    found = Alignment()
    found.add(inputs, "inputs")
    found.add(outputs, "outputs")
    same = same_computation(reference, candidate, inputs)
    found.add(same, "computation")
    found.same = {*inputs, *(name for name, theirs in same.items() if found.pairs.get(name) == theirs)}
    found.add(_by_name(reference, candidate, found.pairs), "name")
    found.add(_by_metadata(reference, candidate), "metadata")
    found.add(_forward(reference, candidate, found.pairs), "structure")
    found.add(_backward(reference, candidate, found.pairs), "structure")
    return found


def same_computation(reference: Flow, candidate: Flow, inputs: Mapping[str, str]) -> Pairs:
    """Pairs with equal fingerprints: the same operators with the same attributes on the same inputs and weights."""
    weights: dict[int, bytes] = {}
    theirs = _fingerprints(reference, {name: name for name in reference.inputs}, weights)
    mine = _fingerprints(candidate, inputs, weights)
    by_print: dict[bytes, str] = {}
    for name in reference.tensors:
        by_print.setdefault(theirs[name], name)
    return {name: by_print[mine[name]] for name in candidate.tensors if mine[name] in by_print}


def _fingerprints(flow: Flow, inputs: Mapping[str, str], seen: dict[int, bytes]) -> dict[str, bytes]:
    found = {name: f"input:{inputs.get(name, name)}:{kind}".encode() for name, kind in flow.inputs.items()}
    for name, tensor in flow.weights.items():
        found[name] = seen.get(id(tensor)) or seen.setdefault(id(tensor), weight_digest(tensor))
    for step in flow.steps:
        parts = [found.get(name, name.encode()) for name in step.inputs]
        if step.op_type in COMMUTATIVE:
            parts.sort()
        parts += [found.get(name, name.encode()) for name in step.captured]
        head = f"{step.domain}:{step.op_type}:{len(step.outputs)}".encode()
        whole = _digest(head, *parts, *attribute_bytes(step, flow.opsets).values())
        for index, name in enumerate(step.outputs):
            if name:
                found[name] = whole + index.to_bytes(2, "little")
    return found


def weight_digest(tensor: ir.TensorProtocol) -> bytes:
    head = f"{tensor.dtype}{list(tensor.shape)}".encode()
    array = tensor.numpy()
    if array.dtype.hasobject:
        return _digest(head, repr(array.tolist()).encode())
    return _digest(head, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")


def attribute_bytes(step: Step, opsets: Mapping[str, int]) -> dict[str, bytes]:
    """Every attribute as bytes, sorted by name, with the operator's defaults filled in."""
    written = {attribute.name: attribute for attribute in _defaults(step, opsets)}
    written |= {attribute.name: attribute for attribute in step.proto.attribute}
    return {name: written[name].SerializeToString(deterministic=True) for name in sorted(written)}


def _defaults(step: Step, opsets: Mapping[str, int]) -> Iterator[onnx.AttributeProto]:
    version = opsets.get(step.domain, opsets.get("ai.onnx", 0) if not step.domain else 0)
    try:
        schema = onnx.defs.get_schema(step.op_type, version, step.domain)
    except onnx.defs.SchemaError:
        return
    yield from (item.default_value for item in schema.attributes.values() if item.default_value.name)


def _digest(*parts: Any) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


def _by_name(reference: Flow, candidate: Flow, known: Pairs) -> Pairs:
    """Tensors of one name, unless known pairs show that the names mean something else here (numbers, counted anew)."""
    theirs = set(reference.tensors)
    agreeing = sum(mine == other for mine, other in known.items() if mine in candidate.producer)
    crossing = sum(mine != other and mine in theirs for mine, other in known.items() if mine in candidate.producer)
    if crossing > agreeing:
        return {}
    return {name: name for name in candidate.tensors if name in theirs}


def _by_metadata(reference: Flow, candidate: Flow) -> Pairs:
    """The last tensor of every place in the user's source that both graphs name."""
    found: Pairs = {}
    for key in METADATA_KEYS:
        theirs, mine = _places(reference, key), _places(candidate, key)
        found |= {mine[place]: theirs[place] for place in mine if place in theirs and mine[place] not in found}
    return found


def _places(flow: Flow, key: str) -> dict[str, str]:
    places: dict[str, str] = {}
    for step in flow.steps:
        text = step.node.metadata_props.get(key) if step.node is not None else None
        if text and step.outputs[0]:
            places[text] = step.outputs[0]  # the last one wins: it is what the place hands on
    return places


def _forward(reference: Flow, candidate: Flow, known: Pairs) -> Pairs:
    """Steps of one kind that read paired tensors at the same positions make paired tensors."""
    pairs, taken = dict(known), set(known.values())
    waiting: dict[tuple[Any, ...], list[Step]] = defaultdict(list)
    for step in reference.steps:
        if not taken.issuperset(filter(None, step.outputs)):
            waiting[_reads(step, reference, None)].append(step)
    for step in candidate.steps:
        if all(name in pairs for name in step.outputs if name):
            continue
        key = _reads(step, candidate, pairs)
        fitting = waiting.get(key, []) if any(part for part in key[1]) else []
        if fitting:
            other = fitting.pop(0)
            fresh = {
                m: t
                for m, t in zip(step.outputs, other.outputs, strict=False)
                if m and t and m not in pairs and t not in taken
            }
            pairs |= fresh
            taken |= set(fresh.values())
    return pairs


def _reads(step: Step, flow: Flow, pairs: Pairs | None) -> tuple[Any, ...]:
    """The kind of step and the tensors it reads, by the reference's names; weights do not count."""
    names = ["" if name in flow.weights else name for name in (*step.inputs, *step.captured)]
    parts = names if pairs is None else [pairs.get(name, "") for name in names]
    while parts and not parts[-1]:
        parts.pop()
    return step.op_type, tuple(sorted(parts) if step.op_type in COMMUTATIVE else parts)


def _backward(reference: Flow, candidate: Flow, known: Pairs) -> Pairs:
    """Inputs of paired steps of one kind are paired where both still stand alone."""
    pairs, taken = dict(known), set(known.values())
    for step in reversed(candidate.steps):
        made = next((pairs[name] for name in step.outputs if name in pairs), "")
        if made not in reference.producer:
            continue
        other = reference.steps[reference.producer[made]]
        if other.op_type != step.op_type:
            continue
        mine = [name if name in candidate.producer and name not in pairs else "" for name in step.inputs]
        theirs = [name if name in reference.producer and name not in taken else "" for name in other.inputs]
        if step.op_type in COMMUTATIVE and sum(map(bool, mine)) == sum(map(bool, theirs)) == 1:
            mine, theirs = list(filter(None, mine)), list(filter(None, theirs))
        both = [(one, two) for one, two in zip(mine, theirs, strict=False) if one and two]
        fresh = {one: two for one, two in both if _alike(reference, candidate, one, two, pairs)}
        pairs |= fresh
        taken |= set(fresh.values())
    return pairs


def _alike(reference: Flow, candidate: Flow, mine: str, theirs: str, pairs: Pairs) -> bool:
    """Whether two tensors are made from the same tensors, as far as these are known: else they only stand in one place."""
    ours = {pairs[name] for name in candidate.steps[candidate.producer[mine]].reads if name in pairs}
    taken = set(pairs.values())
    return ours == {name for name in reference.steps[reference.producer[theirs]].reads if name in taken}


def source_of(step: Step) -> str | None:
    """The line of code that the exporter wrote down, as `model.py:17 in forward: x = self.conv(x)`; the user's, if any."""
    if step.node is None:
        return None
    trace = step.node.metadata_props.get("pkg.torch.onnx.stack_trace") or ""
    frames = [frame for frame in _frames(trace) if not frame.startswith("<")]
    own = [frame for frame in frames if not any(folder in frame for folder in INSTALLED)]
    if frames:
        return (own or frames)[-1]
    for key in METADATA_KEYS[:2]:
        text = step.node.metadata_props.get(key)
        if text:
            return _scope(text)
    return (step.node.doc_string or "").strip().splitlines()[0] if (step.node.doc_string or "").strip() else None


def _frames(trace: str) -> Iterator[str]:
    lines = trace.splitlines()
    for index, line in enumerate(lines):
        head, _, rest = line.strip().partition('", line ')
        if head.startswith('File "') and rest:
            number, _, function = rest.partition(", in ")
            code = lines[index + 1].strip() if index + 1 < len(lines) else ""
            yield f"{head.removeprefix('File ' + chr(34))}:{number} in {function}: {code}"[:300]


def _scope(text: str) -> str:
    """The innermost of a list of scopes that was written as Python."""
    try:
        scopes = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return ".".join(filter(None, map(str, scopes[-2:]))) if isinstance(scopes, list) else text
