from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.report import Report


def verify(
    bundle: Annotated[Path, typer.Argument(help="The folder that sardonyx ship wrote.")],
    digest: Annotated[
        str | None, typer.Option(help="The digest that ship gave; the bundle must be that very one.")
    ] = None,
    memory: Annotated[
        int, typer.Option(metavar="MIB", min=1, help="MiB of tensors that the search for a changed node may hold.")
    ] = 1024,
    timeout: Annotated[float, typer.Option(help="Seconds that the replay may take.")] = 600,
) -> Report:
    """Check every byte of a bundle and replay its golden cases with what is installed here."""
    return sardonyx.verify(bundle, digest=digest, memory=memory << 20, timeout=timeout)
