"""ship and verify: from a trained model to a bundle with its proofs, and the proofs once more on any day after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sardonyx.report import Report


def ship(
    source: Any,
    output: str | Path,
    *,
    data: Any = None,
    label: str | None = None,
    skip: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    config: str | Path | None = None,
    **convert_options: Any,
) -> Report:
    """Converts, checks, compares, optimises, quantises and measures `source`, and writes the bundle `output` with golden cases.

    `data` are real inputs, with labels in `label` or where `label` says, if there are any. `settings` has keywords for stages, as
    `{"quantize": {"budget": "2%"}}`; so has the file `config`. Where none is named, sardonyx.toml of this folder is taken,
    which may say nothing that runs a program. `convert_options` are those of `convert`. Stages in `skip` are left out. A stage
    that was given the same in an earlier run, finished or not, is taken over from it.
    """
    from sardonyx.bundle.settings import gather
    from sardonyx.bundle.shipping import ship_source
    from sardonyx.dataset import Dataset

    gathered = gather(config, settings or {}, skip, convert_options)
    Dataset.of(data, label)  # which refuses a label without data
    return ship_source(source, Path(output), data=data, settings=gathered, label=label)


def verify(bundle: str | Path, *, digest: str | None = None, memory: int = 1 << 30, timeout: float = 600) -> Report:
    """`verified`, `changed` or `tampered`: checks every byte of a bundle and replays its golden cases on what is installed here.

    With `digest`, the bundle must also be the very one that `ship` gave that digest to. The replay runs in a process of its
    own, for at most `timeout` seconds; to find the first changed node it holds about `memory` bytes of tensors.
    """
    from sardonyx.bundle.verifying import verify_bundle

    return verify_bundle(Path(bundle), digest=digest, memory=memory, timeout=timeout)
