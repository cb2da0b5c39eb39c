"""What is packaged: one model under one name, with the files that belong to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sardonyx import external
from sardonyx.below import Folder
from sardonyx.bundle_model import RECORD, hashes_in, model_in
from sardonyx.errors import BrokenModel, RuntimeRefused, UsageError
from sardonyx.files import copy
from sardonyx.golden import GOLDEN
from sardonyx.model import Model
from sardonyx.proto import read_proto
from sardonyx.serve.tensors import DATATYPES
from sardonyx.signature import Signature

MODEL = "model.onnx"
# As a folder, an image and an address may be called, with nothing that YAML or a shell would read otherwise.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,48}[A-Za-z0-9])?")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?(@sha256:[0-9a-f]{64})?")


@dataclass(frozen=True)
class Wishes:
    """What the caller asked for. A target refuses a wish that means nothing to it."""

    name: str | None = None
    image: str | None = None
    storage_uri: str | None = None
    max_batch: int | None = None

    def __post_init__(self) -> None:
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise UsageError(
                f"a model cannot be called '{self.name}'",
                hint="use up to 50 letters, digits, dots, dashes and underscores",
            )
        if self.image is not None and not _IMAGE.fullmatch(self.image):
            raise UsageError(f"'{self.image}' is not the name of an image", hint="write it as registry/name:tag")
        if self.max_batch is not None and self.max_batch < 1:
            raise UsageError(f"a batch cannot hold {self.max_batch} rows", hint="give 1 or more")

    @property
    def made(self) -> list[str]:
        """The options that were given, besides the name, which every target takes."""
        given = {"image": self.image, "storage_uri": self.storage_uri, "max_batch": self.max_batch}
        return [name for name, value in given.items() if value is not None]


class Subject:
    """A model, its name, and the bundle's golden cases where it comes from one."""

    def __init__(self, source: str | Path | Model, name: str | None = None) -> None:
        path = None if isinstance(source, Model) else Path(source)
        # Nothing is taken out of a bundle but what its record names with these bytes.
        self._hashes: dict[str, str] | None = None
        if path is not None and (path / RECORD).is_file():
            self._hashes = hashes_in(path)
            path, called = model_in(path), path.resolve().name
        else:
            called = "model" if path is None else path.stem
        self._path = path
        self.model = Model.load(source if path is None else path)
        self.name = name or _named_after(called)

    @cached_property
    def signature(self) -> Signature:
        return self.model.signature

    def must_be_servable(self) -> None:
        """Raises `RuntimeRefused` where the Open Inference Protocol has no name for a type of the model."""
        for spec in (*self.signature.inputs, *self.signature.outputs):
            if spec.dtype not in DATATYPES:
                raise RuntimeRefused(
                    f"{spec}: the Open Inference Protocol has no such type", hint="put a Cast at that end of the model"
                )

    @property
    def label(self) -> str:
        """The name as Kubernetes writes names: small letters, digits and dashes, with a letter first."""
        label = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        return label if label[:1].isalpha() else f"m-{label}"

    def write(self, folder: Path) -> Path:
        """The model in a new folder, byte for byte, with its external data and golden cases beside it."""
        folder.mkdir(parents=True)
        target = folder / MODEL
        if self._path is None:
            return self.model.save(target)
        if self._hashes is None:
            copy(self._path, target)
        names = {entry.location for entry in external.entries(read_proto(self._path))}
        with Folder(self._path.parent) as source, Folder(folder) as made:
            for name in sorted(names | self._of_bundle(source)):
                source.copy(name, made, name, expected=self._expected(source, name))
        return target

    def _of_bundle(self, source: Folder) -> set[str]:
        """The model, and the golden cases where there are any."""
        if self._hashes is None:
            return set()
        return {MODEL, GOLDEN} if GOLDEN in self._hashes or GOLDEN in source.names() else {MODEL}

    def _expected(self, source: Folder, name: str) -> str | None:
        if self._hashes is None:
            return None
        if name not in self._hashes:
            raise BrokenModel(f"{source.path / name} is no file of the bundle", hint="ship the model again")
        return self._hashes[name]


def _named_after(stem: str) -> str:
    """The nearest name that is allowed."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem)[:50].strip("-._") or "model"
