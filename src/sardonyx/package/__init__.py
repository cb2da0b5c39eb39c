"""package: a folder that can be deployed, and that was checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sardonyx.model import Model
    from sardonyx.report import Report


def package(
    model: str | Path | Model,
    output: str | Path,
    *,
    target: str,
    name: str | None = None,
    image: str | None = None,
    storage_uri: str | None = None,
    max_batch: int | None = None,
) -> Report:
    """Writes a model or a bundle to the folder `output` as the target takes it, and checks what was written.

    Targets are the files of this folder: `docker`, `kserve`, `ray`, `triton`. `name` is the model's name where it is served,
    that of its file by default. `image` is the container image that Kubernetes runs, `storage_uri` is where KServe finds the
    model, and `max_batch` the most rows that Triton puts into a run.
    """
    from sardonyx.package._deploy import deploy
    from sardonyx.package._subject import Wishes

    return deploy(model, Path(output), target, Wishes(name, image, storage_uri, max_batch))
