"""bench: which variant is faster, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sardonyx.report import Report


def bench(
    *variants: Any,
    threads: int | None = None,
    batch: int | Sequence[int] | None = None,
    seconds: float = 4.0,
    provider: str = "cpu",
    data: Any = None,
    label: str | None = None,
    inputs: Sequence[str] = (),
    sizes: Mapping[str, int] | None = None,
    plot: str | Path | None = None,
    profile: bool = False,
    cold: bool = True,
    seed: int = 0,
    weights: str | Path | None = None,
    python: str | Path | None = None,
    trust: bool = False,
    timeout: float = 300,
) -> Report:
    """Latency, throughput, memory and size of every variant, and how many times faster each is than the first.

    A variant is an ONNX model or bundle, any source that convert takes, or either with a runtime before it, as
    "openvino:model.onnx", "torch-compile:file.py:factory" or ("torch-compile", module). "name=variant" names it, and so does
    one mapping of names to variants. Measuring takes at most `seconds` for each variant at each batch size, and half of it
    where the verdicts are clear; a variant that needs longer for one call is called once. `timeout` is for each start of a
    variant, and for its first answer. `data` gives the inputs; where it has labels, in `label` or where `label` says, the answers
    of every variant are judged too. `inputs` says what to generate where no variant does. `cold` starts each variant once more,
    in a fresh process, to time that and to see its memory.
    """
    from sardonyx.bench.measurement import Plan, bench_variants
    from sardonyx.bench.variants._variant import How
    from sardonyx.dataset import Dataset

    batches = [batch] if isinstance(batch, int) else list(batch or ())
    return bench_variants(
        variants,
        How(threads=threads, provider=provider, weights=weights, python=python, trust=trust, timeout=timeout),
        Plan(seconds, batches, Dataset.of(data, label), inputs, dict(sizes or {}), seed, cold, profile),
        plot=plot,
    )
