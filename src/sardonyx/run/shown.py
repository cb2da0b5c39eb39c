"""The picture that a model was shown: its way into the inputs, and the answer's way into the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sardonyx.model import Model
from sardonyx.progress import task
from sardonyx.report import Finding, Report
from sardonyx.run import drawing
from sardonyx.run.inputs import Inputs
from sardonyx.run.preprocessing import Picture
from sardonyx.run.session import Session, Settings
from sardonyx.run.task import Answer, Question

CODES = {"embedded-differs": "With its processing inside the graph the model answers another thing for this picture."}
# Two roundings of a pixel move a score and a box this much at the very most on the models of the tests.
_SCORE, _PIXELS = 0.02, 1.0


@dataclass(frozen=True)
class Shown:
    """A question, the input that takes the picture, and the picture."""

    question: Question
    name: str
    picture: Picture
    said: str

    @classmethod
    def of(cls, question: Question, given: Mapping[str, Any], sizes: Mapping[str, int]) -> Shown:
        name, picture = question.open(given, sizes)
        source = f"{given[name]}: " if isinstance(given[name], str | Path) else ""
        return cls(question, name, picture, f"{source}{picture.said}")

    def answer(self, outputs: Mapping[str, Any]) -> Answer:
        return self.question.answer(dict(outputs), self.picture)

    def embedded(
        self, answer: Answer, model: str | Path | Model, path: str | Path | None, prepared: Inputs, settings: Settings
    ) -> dict[str, Any] | None:
        """Writes the model with its processing inside, after it has answered for the same picture."""
        if path is None:
            return None
        from sardonyx.run.embedding import differences, embed

        with task("writing the processing into the graph"):
            made = embed(model, self.question, answer, self.name, self.picture)
            outputs = Session(made, settings)({**prepared.arrays, self.name: self._pixels()})
            inside = replace(self.question, inside=True, signature=made.signature)
            differ = differences(answer.found, inside.answer(outputs, self.picture).found)
            made.save(path)
        return {"path": str(path), "differences": differ}

    def told(self, report: Report, answer: Answer, *, drawn: Path | None, embedded: dict[str, Any] | None) -> Report:
        """The report of the run with the answer in the place of the outputs, and the picture drawn."""
        if drawn is not None and drawn.suffix != ".npz":
            drawing.draw(self.picture.pixels, answer.found, drawn)
        findings = (*report.findings, *answer.findings)
        summary = f"{answer.summary}; {report.summary}"
        if embedded is not None:
            findings = (*findings, *_doubts(embedded))
            summary += f"; with its processing inside the graph: {embedded['path']}"
        fields = {**report.fields, "task": self.question.task.name, **answer.fields}
        return replace(
            report,
            fields=fields if embedded is None else {**fields, "embedded": embedded},
            findings=findings,
            tables=(*(table for table in report.tables if table.title != "outputs"), answer.table),
            summary=summary,
            artifacts={**report.artifacts, "picture": self.picture.pixels},
        )

    def _pixels(self) -> Any:
        pixels = self.picture.pixels
        return pixels if pixels.ndim == 3 else pixels[:, :, None]


def _doubts(embedded: Mapping[str, Any]) -> tuple[Finding, ...]:
    differ = embedded["differences"]
    if differ is not None and differ["score"] <= _SCORE and differ["box"] <= _PIXELS:
        return ()
    told = (
        "it names other things"
        if differ is None
        else f"scores differ by {differ['score']:.3g}, boxes by {differ['box']:.3g}"
    )
    return (Finding("warning", "embedded-differs", str(embedded["path"]), told, "compare both on more pictures"),)
