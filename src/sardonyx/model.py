"""An ONNX model and how it came to be: a thin shell over onnx_ir that loads lazily and saves safely."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from sardonyx import columns, external, history, map_types, progress
from sardonyx.errors import BrokenModel, InputError, OutputError
from sardonyx.files import replacing, scratch, sync
from sardonyx.history import History, Step
from sardonyx.proto import PROTOBUF_LIMIT, read_proto
from sardonyx.signature import Signature
from sardonyx.stamp import fit_runtime

# Weights above this go to a file beside the model; protobuf itself ends at 2 GiB.
EXTERNAL_ABOVE = 1 << 30


class Model:
    """`Model.load(path)`, look at or change `model.ir`, `model.save(path)`."""

    def __init__(self, graph: ir.Model, *, path: Path | None = None) -> None:
        self.ir = graph
        self.path = path

    @classmethod
    def load(cls, source: str | Path | Model) -> Model:
        """The model at a path, with external data left on disk until it is read. A `Model` is given back as it is."""
        if isinstance(source, Model):
            return source
        path = Path(source)
        proto = read_proto(path)
        trouble = external.findings(proto, path.parent)
        if trouble:
            first = trouble[0]
            raise BrokenModel(f"{path}: {first.where}: {first.message}", hint=first.hint)
        return cls(_deserialize(proto, path), path=path)

    @classmethod
    def from_proto(cls, proto: onnx.ModelProto) -> Model:
        """The model that a protobuf message holds."""
        return cls(_deserialize(proto, Path("model")))

    @classmethod
    def from_text(cls, text: str) -> Model:
        """The model that ONNX's text form describes."""
        return cls.from_proto(onnx.parser.parse_model(text))

    def to_proto(self) -> onnx.ModelProto:
        """The model as a protobuf message. External data stays outside."""
        return _to_proto(self.ir)

    @property
    def signature(self) -> Signature:
        """What goes in and what comes out, as the graph says now."""
        return Signature.of(self.ir.graph)

    @property
    def opset(self) -> int:
        """The version of the standard operators; 0 if the model imports none."""
        return self.ir.opset_imports.get("", self.ir.opset_imports.get("ai.onnx", 0))

    @property
    def ir_version(self) -> int:
        """The version of the file format."""
        return int(self.ir.ir_version)

    @property
    def history(self) -> History:
        """The steps that made the model, the first one first."""
        text = self.ir.metadata_props.get(history.KEY)
        return history.loads(text) if text else ()

    def record(self, step: Step) -> Model:
        """The same model with one more step in its history."""
        self.ir.metadata_props[history.KEY] = history.dumps((*self.history, step))
        return self

    def weight_bytes(self) -> int:
        """The size of all initializers, read from their types and shapes, not from their values."""
        values = (value.const_value for graph in self.ir.graphs() for value in graph.initializers.values())
        return sum(tensor.nbytes for tensor in values if tensor is not None)

    def save(self, path: str | Path, *, external_data: bool | None = None) -> Path:
        """Writes the model so that a crash leaves the old file or none, and gives back the path.

        Weights go to `NAME.data` beside the model when they are large, when the model already kept them outside,
        or when `external_data` says so. The IR version and opset are brought down to what the installed onnxruntime
        loads; where that would change a meaning, nothing is written.
        """
        path = Path(path)
        fit_runtime(self.ir)
        outside = (
            self.keeps_data_outside or self.weight_bytes() > EXTERNAL_ABOVE if external_data is None else external_data
        )
        if not outside:
            _must_fit(self.weight_bytes())
        old = _data_files(path)
        data = _unused_data_name(path) if outside else None
        _bring_inside(self.ir)
        try:
            with progress.task(f"write {path.name}"), replacing(path) as temporary:
                _write(self.ir, temporary, data)
        finally:
            # A name nobody uses until the rename of the model, which is the one moment of change; of no use if that failed.
            if data is not None and data not in _data_files(path):
                data.unlink(missing_ok=True)
        for file in old:
            file.unlink(missing_ok=True)
        if outside:
            self.ir = _deserialize(read_proto(path), path)
        self.path = path
        return path

    @property
    def keeps_data_outside(self) -> bool:
        """Whether weights lie in files beside the model."""
        values = (value.const_value for graph in self.ir.graphs() for value in graph.initializers.values())
        return any(isinstance(tensor, ir.ExternalTensor) for tensor in values)


def _data_files(path: Path) -> list[Path]:
    """The data files of the model that lies at `path` now, of those that an earlier save named."""
    if not path.is_file():
        return []
    try:
        named = {entry.location for entry in external.entries(read_proto(path))}
    except InputError:
        return []
    return [
        path.parent / name
        for name in named
        if name.startswith(f"{path.name}.") and name.endswith(".data") and Path(name).name == name
    ]


def _unused_data_name(path: Path) -> Path:
    """`NAME.data`, or a longer name where the model that lies there now, or somebody else, has that one."""
    data = path.parent / f"{path.name}.data"
    return path.parent / f"{path.name}.{os.urandom(4).hex()}.data" if os.path.lexists(data) else data


def _write(model: ir.Model, path: Path, data: Path | None) -> None:
    """The model into the file `path`, its weights into the file `data` beside it, or into the model if that is None."""
    try:
        if data is None:
            ir.external_data.load_to_model(model)
            proto = _to_proto(model)
            _must_fit(proto.ByteSize())
            path.write_bytes(proto.SerializeToString())
            return
        with scratch(data) as folder:
            written, bare = folder / data.name, folder / "model"
            ir.save(model, bare, format="protobuf", external_data=data.name)
            if map_types.present(model):
                proto = read_proto(bare)
                map_types.put_back(proto, model)
                bare.write_bytes(proto.SerializeToString())
            if written.exists():  # small tensors stay in the model, and there may be no other
                sync(written)
                written.rename(data)
            _must_fit(bare.stat().st_size)
            bare.rename(path)
    except (OSError, OutputError):
        raise
    except Exception as error:
        raise BrokenModel(f"the model cannot be written: {_first_line(error)}", hint="export it again") from error


def _must_fit(size: int) -> None:
    """Protobuf writes more than it can read back, without a word."""
    if size > PROTOBUF_LIMIT:
        raise OutputError(
            f"the model needs {size} bytes in one file, and protobuf ends at 2 GiB",
            hint="keep the weights as initializers and save them as external data",
        )


def _bring_inside(model: ir.Model) -> None:
    """Reads external tensors that onnx_ir would leave behind: those of attributes, and of graphs inside functions."""
    for scope in (model.graph, *model.functions.values()):
        for node in scope.all_nodes():
            for name, attribute in list(node.attributes.items()):
                if attribute.is_ref():
                    continue
                if attribute.type == ir.AttributeType.TENSOR:
                    node.attributes[name] = ir.AttrTensor(name, _in_memory(attribute.value))
                elif attribute.type == ir.AttributeType.TENSORS:
                    node.attributes[name] = ir.AttrTensors(name, [_in_memory(tensor) for tensor in attribute.value])
    for function in model.functions.values():
        for graph in function.subgraphs():
            for value in graph.initializers.values():
                value.const_value = _in_memory(value.const_value)


def _in_memory(tensor: Any) -> Any:
    """An external tensor as one that holds its values; anything else as it is."""
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    return ir.Tensor(tensor.numpy().copy(), name=tensor.name, dtype=tensor.dtype)


def _deserialize(proto: onnx.ModelProto, path: Path) -> ir.Model:
    if proto.training_info or any(graph.sparse_initializer for graph in external.graphs(proto)):
        raise InputError(
            f"{path} holds sparse initializers or training info, which Sardonyx does not read",
            hint="export the model again with dense weights and for inference",
        )
    for tensor in external.tensors(proto):
        if not tensor.data_type:
            raise BrokenModel(f"{path}: tensor {external.text(tensor.name)} has no type", hint="export the model again")
    try:
        with map_types.set_aside(proto) as held:
            model: ir.Model = ir.from_proto(proto)
    except Exception as error:
        raise BrokenModel(f"{path}: {_first_line(error)}", hint=f"sardonyx check {path}") from error
    map_types.remember(model, held)
    columns.attach(model)
    _name_standard_operators(model)
    _look_for_data_in(model, path.parent)
    return model


def _name_standard_operators(model: ir.Model) -> None:
    """'ai.onnx' is another name of '', under which nodes have it. Where both are imported they stay: `check` says so."""
    for imports in (model.opset_imports, *(function.opset_imports for function in model.functions.values())):
        if "ai.onnx" in imports and "" not in imports:
            imports[""] = imports.pop("ai.onnx")


def _to_proto(model: ir.Model) -> onnx.ModelProto:
    proto: onnx.ModelProto = ir.to_proto(model)
    map_types.put_back(proto, model)
    return proto


def _look_for_data_in(model: ir.Model, folder: Path) -> None:
    ir.external_data.set_base_dir(model.graph, folder)
    for function in model.functions.values():
        ir.external_data.set_base_dir(function.graph, folder)


def _first_line(error: BaseException) -> str:
    root: Any = error
    while root.__cause__ is not None:
        root = root.__cause__
    return (str(root).strip().splitlines() or [type(root).__name__])[0]
