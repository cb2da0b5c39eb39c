"""The picture of a run: the loss over steps, and training and validation over epochs."""

from __future__ import annotations

from pathlib import Path

from sardonyx.errors import OutputError
from sardonyx.files import replacing
from sardonyx.training.loop import Course

FORMATS = (".png", ".svg", ".pdf")


def draw(course: Course, path: Path) -> None:
    """Writes the picture in the format that the name ends with."""
    if path.suffix.lower() not in FORMATS:
        raise OutputError(f"cannot draw to {path}", hint=f"end its name in {', '.join(FORMATS)}")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(course.losses, color="#0969da", lw=1)
    left.set(title="Loss over the run", xlabel="steps, from the first to the last", ylabel="loss")
    epochs = [row["epoch"] for row in course.history]
    for name in ("loss", "valid_loss"):
        if course.history and name in course.history[-1]:
            right.plot(epochs, [row.get(name) for row in course.history], "o-", label=name.replace("_", " "))
    right.set(title="Mean loss of each epoch", xlabel="epoch")
    if course.history and "valid_accuracy" in course.history[-1]:
        other = right.twinx()
        other.plot(epochs, [row["valid_accuracy"] for row in course.history], "s--", color="#1a7f37")
        other.set_ylabel("validation accuracy", color="#1a7f37")
    if epochs:
        right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)
