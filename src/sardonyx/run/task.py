"""A question about a picture: what it shows, or what is where; from the words of the call to the answer in the report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import arrays
from sardonyx.errors import BadData, BrokenModel, UsageError
from sardonyx.model import Model
from sardonyx.report import Finding, Table
from sardonyx.run import classify, detect
from sardonyx.run import labels as names
from sardonyx.run.classify import Scores
from sardonyx.run.heads._head import Raw
from sardonyx.run.preprocessing import Picture, Preprocessing, picture_for
from sardonyx.signature import Arrays, Signature

CODES = {"no-boxes": "No box scores above the threshold."}
TASKS = ("classify", "detect")
# What a model carries that has its pre- and post-processing inside: the task, and what was asked of it.
KEY = "sardonyx.task"
_TOP = {"classify": 5, "detect": 100}
_RESIZE = {"classify": "crop", "detect": "fit"}
# Detectors whose input may have any size want multiples of their largest stride.
_MULTIPLE = {"classify": 1, "detect": 32}


@dataclass(frozen=True)
class Task:
    """The words of the call. None is the default of the task, or what the model says."""

    name: str
    labels: str | Path | Sequence[str] | None = None
    top: int | None = None
    normalize: str | None = None
    resize: str | None = None
    channel_order: str = "rgb"
    head: str | None = None
    score: float = 0.25
    overlap: float = 0.45

    def __post_init__(self) -> None:
        if self.name not in TASKS:
            raise UsageError(f"there is no task '{self.name}'", hint=f"use {' or '.join(TASKS)}")
        if self.top is not None and self.top < 1:
            raise UsageError(f"--top {self.top} shows nothing", hint="give 1 or more")
        for option in ("score", "overlap"):
            if not 0 <= getattr(self, option) <= 1:
                raise UsageError(f"--{option} {getattr(self, option)} is not a share", hint="give 0 to 1")
        if self.head is not None:
            detect.head_named(self.head)
            if self.name != "detect":
                raise UsageError("--head is for --task detect", hint="leave --head out")
        self.preprocessing  # noqa: B018  refuses words that mean nothing

    @property
    def limit(self) -> int:
        return self.top or _TOP[self.name]

    @property
    def preprocessing(self) -> Preprocessing:
        return Preprocessing(self.normalize, self.resize or _RESIZE[self.name], self.channel_order)


@dataclass(frozen=True)
class Answer:
    """What the report shows, and how it was read off: the scores of a classifier, or the head of a detector."""

    found: list[dict[str, Any]]
    fields: dict[str, Any]
    table: Table
    summary: str
    findings: tuple[Finding, ...] = ()
    scores: Scores | None = None
    head: str | None = None
    raw: Raw | None = None


@dataclass(frozen=True)
class Question:
    """A task put to a model, with its labels; `inside` if the model itself prepares the picture and reads the answer."""

    task: Task
    signature: Signature
    labels: tuple[str, ...] | None
    last_operators: Mapping[str, str]
    inside: bool

    @classmethod
    def of(cls, task: Task, model: Model, signature: Signature) -> Question:
        inside = _inside(model, task)
        last = {value.name or "": node.op_type for value in model.ir.graph.outputs if (node := value.producer())}
        return cls(task, signature, _labels(task, model), last, inside)

    @property
    def how(self) -> Preprocessing:
        return Preprocessing("none", "stretch") if self.inside else self.task.preprocessing

    def open(self, given: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[str, Picture]:
        """The name of the input that was given a picture, and the picture for it."""
        known = {spec.name: spec for spec in self.signature.inputs}
        pictures = [name for name, value in given.items() if name in known and _is_picture(value)]
        if len(pictures) != 1:
            which = f"several are given: {', '.join(pictures)}" if pictures else "none is given"
            name = next(iter(known), "x")
            raise UsageError(
                f"--task {self.task.name} is about one picture, and {which}", hint=f"give --input {name}=photo.jpg"
            )
        (name,) = pictures
        multiple = 1 if self.inside else _MULTIPLE[self.task.name]
        return name, picture_for(given[name], known[name], self.how, sizes=sizes, multiple=multiple)

    def answer(self, outputs: Arrays, picture: Picture) -> Answer:
        return (self._classes if self.task.name == "classify" else self._boxes)(outputs, picture)

    def _classes(self, outputs: Arrays, picture: Picture) -> Answer:  # noqa: ARG002
        if self.inside:
            best, scores = outputs["classes"][: self.task.limit], outputs["scores"][: self.task.limit]
            read = None
        else:
            read = classify.scores_of(outputs, len(self.labels) if self.labels else None, self.last_operators)
            every = classify.probabilities(outputs[read.output], read.kind)
            names.must_count(self.labels, every.size)
            best = classify.top(every, self.task.limit)
            scores = every[best]
        found = classify.answer(best.tolist(), scores.tolist(), self.labels)
        said = f"{found[0]['label']}, {found[0]['score'] * 100:.1f} %"
        if read is not None and read.kind != "probabilities":
            said += f" ({'softmax of logits' if read.kind == 'logits' else read.kind})"
        return Answer(found, {"classes": found}, classify.table(found), said, scores=read)

    def _boxes(self, outputs: Arrays, picture: Picture) -> Answer:
        if self.inside:
            kept = [outputs[name][: self.task.limit] for name in ("boxes", "scores", "labels")]
            return self._told(*kept)
        layout = picture.layout
        assert isinstance(layout.height, int)
        assert isinstance(layout.width, int)
        raw = Raw(outputs, layout.height, layout.width, len(self.labels) if self.labels else None)
        name = detect.head_of(raw, self.task.head)
        head = detect.head_named(name)
        decoded = head.decode(raw)
        detect.must_be_labelled(decoded, self.labels)
        kept_boxes = detect.chosen(
            decoded,
            score=self.task.score,
            overlap=self.task.overlap,
            limit=self.task.limit,
            suppressed=head.SUPPRESSED,
        )
        told = self._told(picture.placement.back(kept_boxes.boxes), kept_boxes.scores, kept_boxes.labels)
        return replace(
            told, fields={**told.fields, "head": name}, summary=f"{told.summary}, head {name}", head=name, raw=raw
        )

    def _told(self, boxes: np.ndarray[Any, Any], scores: np.ndarray[Any, Any], kinds: np.ndarray[Any, Any]) -> Answer:
        found = detect.answer(boxes, scores, kinds, self.labels)
        fields: dict[str, Any] = {"boxes": found}
        said = f"{len(found)} {'box' if len(found) == 1 else 'boxes'}"
        if found:
            return Answer(found, fields, detect.table(found), said)
        nothing = Finding(
            "info",
            "no-boxes",
            "",
            f"no box scores above {self.task.score:g}",
            "try a lower --score, or another --normalize",
        )
        return Answer(found, fields, detect.table(found), said, (nothing,))


def _is_picture(value: Any) -> bool:
    """A file that holds no arrays, or an array of bytes."""
    if isinstance(value, (str, Path)):
        try:
            return Path(value).is_file() and arrays.kind(Path(value)) is None
        except (OSError, ValueError):  # a literal that is no path
            return False
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim in (2, 3)


def _labels(task: Task, model: Model) -> tuple[str, ...] | None:
    if task.labels is None:
        return names.carried(model)
    if isinstance(task.labels, (str, Path)):
        return names.read(task.labels)
    return tuple(task.labels)


def _inside(model: Model, task: Task) -> bool:
    text = model.ir.metadata_props.get(KEY)
    if text is None:
        return False
    try:
        carried = json.loads(text)["task"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BrokenModel(f"the model's '{KEY}' metadata names no task: {error}", hint="embed it again") from error
    if carried != task.name:
        raise BadData(f"the model has --task {carried} inside, not {task.name}", hint=f"ask with --task {carried}")
    if task.normalize is not None or task.resize is not None or task.head is not None or task.channel_order != "rgb":
        raise UsageError(
            "the model prepares the picture itself", hint="leave --normalize, --resize, --channel-order and --head out"
        )
    return True
