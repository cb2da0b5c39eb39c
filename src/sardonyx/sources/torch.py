"""PyTorch: modules, factories with weights, torch.export programs, TorchScript, and full-module pickles."""

from __future__ import annotations

import pickletools
import re
import zipfile
from pathlib import Path
from typing import IO, Any

from sardonyx.errors import UnknownSource
from sardonyx.sources._recognise import Subject

REQUIRES = "torch"
SAFER = "save model.state_dict() as safetensors and convert file.py:factory --weights weights.safetensors, or convert it to ONNX"
ROUTES = {
    "module": ("dynamo", "script", "trace"),
    "factory": ("dynamo", "script", "trace"),
    "pickle-module": ("dynamo", "script", "trace"),
    "program": ("dynamo", "trace"),
    "torchscript": ("script", "dynamo", "trace"),
}
# Classes of live objects, by where they are defined, the most telling first.
LIVE = {
    ("torch.jit._script", "ScriptModule"): "torchscript",
    ("torch.jit", "ScriptFunction"): "torchscript",
    ("torch.export.exported_program", "ExportedProgram"): "program",
    ("torch.nn.modules.module", "Module"): "module",
}
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the number that opens a file of torch.save before version 1.6
LEGACY_PICKLES = 4  # the number, the protocol, the machine, and then the object
# What a pickle of nothing but tensors and plain values names.
PLAIN = re.compile(
    r"torch\.(_utils\._rebuild_\w+|(storage\.)?\w*Storage|Size|device|bool|b?float\w*|u?int\d+|complex\d+)"
    r"|collections\.(OrderedDict|defaultdict|Counter)|(builtins|__builtin__)\.(set|frozenset|slice|bytearray|complex)"
    r"|numpy(\._?core)?\.(multiarray\.(scalar|_reconstruct)|dtype|ndarray)|_codecs\.encode"
)


def accepts(subject: Subject) -> str | None:
    """The form of a PyTorch model, or an error where the file holds only the weights of one."""
    if subject.path is None:
        return _live(subject.value)
    tails = {name.partition("/")[2] for name in subject.members} if subject.path.is_file() else set()
    if "constants.pkl" in tails and any(tail.startswith("code/") for tail in tails):
        return "torchscript"
    if "archive_format" in tails or "serialized_exported_program.json" in subject.members:
        return "program"
    if "data.pkl" in tails:
        with zipfile.ZipFile(subject.path) as archive:
            member = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(member) as file:
                return _saved(subject.path, _named(file))
    if subject.head.startswith(LEGACY):
        with subject.path.open("rb") as file:
            return _saved(subject.path, {name for _ in range(LEGACY_PICKLES) for name in _named(file)})
    if subject.head[8:10] == b'{"' and subject.path.suffix == ".safetensors":
        raise _only_weights(subject.path)
    return None


def routes(form: str) -> tuple[str, ...]:
    """The ways to ONNX, the most trusted first."""
    return ROUTES[form]


def _live(value: Any) -> str | None:
    kinds = [(kind.__module__, kind.__name__) for kind in (value if isinstance(value, type) else type(value)).__mro__]
    return next((form for key, form in LIVE.items() if key in kinds), None)


def _saved(path: Path, named: set[str]) -> str:
    """The form of what torch.save wrote, told from the classes that it names."""
    if all(PLAIN.fullmatch(name) for name in named):
        raise _only_weights(path)
    return "pickle-module"


def _named(file: IO[bytes]) -> set[str]:
    """The classes and functions that one pickle names, read without running it. What cannot be read counts as unknown."""
    found: set[str] = set()
    try:
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name == "GLOBAL":
                found.add(str(argument).replace(" ", "."))
            elif opcode.name == "STACK_GLOBAL":  # torch.save writes protocol 2, which has none of these
                found.add("unknown")
    except (ValueError, EOFError):
        found.add("unreadable")
    return found


def _only_weights(path: Path) -> UnknownSource:
    return UnknownSource(
        f"{path} holds weights but no model: PyTorch keeps the code of a model apart from its numbers",
        hint=f"name the code that builds it: sardonyx convert file.py:factory --weights {path}",
    )
