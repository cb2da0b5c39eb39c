"""A model repository that a Triton loads: NAME/config.pbtxt and NAME/1/model.onnx."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sardonyx.errors import InputError
from sardonyx.model import Model
from sardonyx.package import _prototext as prototext
from sardonyx.package._prototext import Word
from sardonyx.package._subject import MODEL, Subject, Wishes
from sardonyx.report import Finding
from sardonyx.run.session import Session, Settings, stored_level
from sardonyx.serve.policy import LARGEST, why_not_batched
from sardonyx.serve.tensors import DATATYPES
from sardonyx.serve.terms import Terms, sizes_of
from sardonyx.signature import Array, Signature, TensorSpec

REQUIRES = None
TAKES = {"max_batch"}
STEPS = (
    "docker run --rm -p 8000:8000 -p 8001:8001 -v $(realpath {folder}):/models nvcr.io/nvidia/tritonserver:YY.MM-py3 "
    "tritonserver --model-repository=/models",
    "sardonyx serve {folder}",
)
CODES = {
    "triton-not-batched": "Triton will run the model's requests one by one.",
    "triton-config": "config.pbtxt does not say what the model takes and gives.",
}
CONFIG, VERSION = "config.pbtxt", "1"
# Triton's numbers for how far onnxruntime may change the graph, where that is not all the way.
LEVELS = {"none": 2, "basic": -1, "extended": 1}


def package(subject: Subject, folder: Path, wishes: Wishes) -> list[Finding]:
    subject.must_be_servable()
    path = subject.write(folder / subject.name / VERSION)
    reason = _why_not_batched(path, subject.signature)
    most = 0 if reason else wishes.max_batch or LARGEST
    level = stored_level(subject.model)
    (path.parent.parent / CONFIG).write_text(prototext.dumps(_config(subject.name, subject.signature, most, level)))
    return [Finding("info", "triton-not-batched", subject.name, reason)] if reason else []


def check(folder: Path) -> list[Finding]:
    """Reads each configuration again and holds it against the model that lies beside it."""
    return [
        Finding("error", "triton-config", str(path.relative_to(folder)), problem, "package the model again")
        for path in sorted(folder.glob(f"*/{CONFIG}"))
        for problem in _problems(path)
    ]


def _config(name: str, signature: Signature, most: int, level: str | None) -> dict[str, Any]:
    config = {
        "name": name,
        "platform": "onnxruntime_onnx",
        "backend": "onnxruntime",
        "default_model_filename": MODEL,
        "max_batch_size": most,
        "input": [_tensor(spec, most > 0) for spec in signature.inputs],
        "output": [_tensor(spec, most > 0) for spec in signature.outputs],
        "version_policy": {"latest": {"num_versions": 1}},
        "instance_group": [{"kind": Word("KIND_CPU"), "count": 1}],
    }
    if level in LEVELS:
        config["optimization"] = {"graph": {"level": LEVELS[level]}}
    return config | ({"dynamic_batching": {}} if most > 0 else {})


def _tensor(spec: TensorSpec, batched: bool) -> dict[str, Any]:
    """One input or output. Where Triton batches, the first dimension is its own and not written."""
    if spec.shape is None:
        raise InputError(
            f"{spec.name}: Triton must know how many dimensions it has", hint="give it a shape, or infer shapes first"
        )
    dims = sizes_of(spec.shape)[1 if batched else 0 :]
    if 0 in dims:
        raise InputError(f"{spec}: Triton has no dimension of size 0", hint="remove it from the model")
    data_type = Word(f"TYPE_{DATATYPES[spec.dtype].replace('BYTES', 'STRING')}")
    # Triton has no scalars: they are one value that is given to the model in another shape.
    scalar = {"dims": [1], "reshape": {"shape": []}}
    return {"name": spec.name, "data_type": data_type, **({"dims": dims} if dims else scalar)}


def _why_not_batched(path: Path, signature: Signature) -> str:
    """Why Triton may not put requests together; empty where it may, which is found out by running the model."""
    terms = Terms(signature, elements=1 << 62)
    alone = any(len(spec.shape or ()) < 2 for spec in (*signature.inputs, *signature.outputs))
    if terms.batchable and alone:
        return "an input or output has no dimension besides the batch, and Triton would ask for another one"
    session = Session(path, Settings(threads=1))
    names = signature.input_names

    def run(outputs: tuple[str, ...], inputs: Sequence[Array]) -> list[Array]:
        return session.run_some(outputs, dict(zip(names, inputs, strict=True)))

    return why_not_batched(run, signature, terms)


def _problems(path: Path) -> Iterator[str]:
    model = path.parent / VERSION / MODEL
    if not model.is_file():
        yield f"there is no {VERSION}/{MODEL} beside it"
        return
    try:
        found = prototext.loads(path.read_text())
    except ValueError as error:
        yield f"it is not protobuf text: {error}"
        return
    most = found.get("max_batch_size", [0])[0]
    loaded = Model.load(model)
    expected = prototext.loads(prototext.dumps(_config(path.parent.name, loaded.signature, most, stored_level(loaded))))
    for field in sorted(expected.keys() | found.keys()):
        if found.get(field) != expected.get(field):
            yield f"{field} is {found.get(field)}, and the model asks for {expected.get(field)}"
