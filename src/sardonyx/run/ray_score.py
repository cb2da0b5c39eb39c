"""Scores files of arrays on a Ray cluster: each is cut into parts, workers run them, and the answers are put together again."""

from __future__ import annotations

import logging
import pickle
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import arrays, errors, files, machine, progress, registry
from sardonyx.errors import BadData, NotFound, SardonyxError, UsageError
from sardonyx.model import Model
from sardonyx.report import Finding, Report, Table
from sardonyx.run import outputs as results
from sardonyx.run.parts import Part, cut_files, open_inputs, rows_of
from sardonyx.run.ray_cluster import cluster
from sardonyx.run.session import Session, Settings
from sardonyx.signature import Arrays, Signature

CODES = {"scored-whole": "A file's rows were run at once, because a row's answer may hang on the rows beside it."}
# No output is called so.
_ERROR = ""
_SUFFIXES = (".npz", ".npy", ".safetensors", ".csv", ".parquet")


@dataclass(frozen=True)
class _Plan:
    sources: list[Path]
    targets: list[Path]
    parts: list[Part]
    cut: bool
    label: str | None


@dataclass(frozen=True)
class _Done:
    """A file that was scored. Its arrays are kept where it is the only one."""

    source: Path
    target: Path
    outputs: list[dict[str, Any]]
    refused: dict[str, str]
    kept: dict[str, Any]


def score_only(
    engine: str,
    model: Any,
    data: Any,
    output: str | Path | None,
    *,
    label: str | None = None,
    provider: str,
    threads: int | None,
    unfit: Mapping[str, Any],
) -> Report:
    """What `score` gives, once it is clear that scoring is what was asked for: `unfit` are options that make no sense here."""
    if engine != "ray":
        raise UsageError(f"there is no engine '{engine}'", hint="the engines are local and ray")
    for name, value in unfit.items():
        if value:
            raise UsageError(
                f"the engine ray takes no --{name}", hint="give every input in --data, or use --engine local"
            )
    if not isinstance(data, str | Path) or output is None:
        raise UsageError("the engine ray scores files", hint="give them with --data, and where to write with -o")
    if isinstance(model, Model):
        raise UsageError("the engine ray takes a model's path, not the model", hint="save it first: model.save(path)")
    registry.need("ray", for_what="the engine ray")
    return score(model, data, output, label=label, provider=provider, threads=threads)


def score(
    model: str | Path,
    data: str | Path,
    output: str | Path,
    *,
    label: str | None = None,
    provider: str = "cpu",
    threads: int | None = None,
) -> Report:
    """The outputs of a file in one .npz, or those of every file of a folder in a folder: the answers of `sardonyx.run`.

    Every node must find the model and the files under the same paths. A worker uses `threads`, or one. What `label` names
    in the files is no input.
    """
    source, target = Path(data), Path(output)
    path = Path(model).resolve()
    settings = Settings(provider, threads or 1)
    if source.is_dir() and target.suffix == ".npz":
        raise UsageError(f"the answers of a folder go to a folder, not to {target}", hint=f"name it: -o {target.stem}")
    if source.is_dir():
        with files.replacing_folder(target) as folder:
            return _scored(path, settings, _files_of(source), folder, target, label)
    if target.suffix != ".npz":
        raise UsageError(f"{target} does not end in .npz", hint=f"outputs are written as .npz: -o {target.stem}.npz")
    files.must_be_writable(target)
    return _scored(path, settings, [source], target.parent, target, label)


def _scored(
    path: Path, settings: Settings, sources: list[Path], folder: Path, target: Path, label: str | None
) -> Report:
    with progress.task("loading the model"):
        session = Session(path, settings)
        signature, settings = session.signature, session.settings
    names = [target.name] if target.suffix == ".npz" else [f"{source.stem}.npz" for source in sources]
    parts, cut = cut_files(session, sources, label)
    plan = _Plan(sources, [folder / name for name in names], parts, cut, label)
    del session
    started = time.perf_counter()
    with (
        progress.task("scoring", total=len(parts)) as advance,
        closing(_answers(plan, path, settings, signature, advance)) as answers,
    ):
        done = list(_written(plan, answers, target))
    return _report(plan, done, time.perf_counter() - started, target)


def _files_of(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in _SUFFIXES)
    if not found:
        raise NotFound(f"{folder} holds no file of arrays", hint=f"put {', '.join(_SUFFIXES)} files into it")
    twice = {path.stem for path in found if [other.stem for other in found].count(path.stem) > 1}
    if twice:
        raise BadData(
            f"{folder} holds several files called {sorted(twice)[0]}", hint="their answers would have the same name"
        )
    return found


class Scorer:
    """A worker: keeps the model open, and the file that it last read."""

    def __init__(self, model: str, settings: Settings, signature: Signature, label: str | None = None) -> None:
        self._session, self._label = Session(model, settings, signature=signature), label
        self._open: tuple[str, Any] = ("", None)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Ray Data's batch of parts, each with its answer, or with the error that it met, as bytes."""
        parts = [
            Part(*map(_plain, values)) for values in zip(*(batch[name] for name in Part.__annotations__), strict=True)
        ]
        return {"file": [part.file for part in parts], "answer": [pickle.dumps(self._answer(part)) for part in parts]}

    def _answer(self, part: Part) -> Arrays | dict[str, str]:
        try:
            if self._open[0] != part.path:
                self._open = (part.path, open_inputs(Path(part.path), self._session.signature, self._label))
            return self._session(rows_of(self._open[1], part.start, part.stop))
        except SardonyxError as error:
            return {_ERROR: f"{type(error).__name__}\n{error.hint}\n{error.message}"}


def unpacked(answer: bytes) -> Arrays:
    """The outputs that a worker packed, or the error that it met, raised."""
    outputs: Arrays = pickle.loads(answer)
    if _ERROR in outputs:
        kind, hint, message = str(outputs[_ERROR]).split("\n", 2)
        raise getattr(errors, kind)(message, hint=hint)
    return outputs


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _answers(
    plan: _Plan, model: Path, settings: Settings, signature: Signature, advance: Any
) -> Generator[tuple[int, Arrays], None, None]:
    """The answers in the order of the parts, each with the index of its file."""
    with cluster(machine.threads()) as ray:
        from ray import data

        logging.getLogger("ray.data").setLevel(logging.ERROR)  # which sets its own level when it is imported
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        workers = max(1, min(len(plan.parts), int(ray.cluster_resources().get("CPU", 1)) // settings.thread_count))
        items = data.from_items([asdict(part) for part in plan.parts], override_num_blocks=len(plan.parts))
        scored = items.map_batches(
            Scorer, batch_size=1, num_cpus=settings.thread_count, compute=data.ActorPoolStrategy(size=workers),
            fn_constructor_args=(str(model), settings, signature, plan.label),
        )  # fmt: skip
        for row in scored.iter_rows():
            advance()
            yield row["file"], unpacked(row["answer"])


def _written(plan: _Plan, answers: Iterator[tuple[int, Arrays]], target: Path) -> Iterator[_Done]:
    """Writes each file's answers when the last of them is there, and lets them go."""
    counts = Counter(part.file for part in plan.parts)
    for index, path in enumerate(plan.targets):
        held = [next(answers)[1] for _ in range(counts[index])]
        outputs = (
            held[0] if len(held) == 1 else {name: np.concatenate([part[name] for part in held]) for name in held[0]}
        )
        writable, refused = results.as_arrays(outputs)
        arrays.write_npz(path, writable)
        described = [results.describe(name, value) for name, value in outputs.items()]
        kept = outputs if len(plan.sources) == 1 else {}
        yield _Done(
            plan.sources[index], target if target.suffix == ".npz" else target / path.name, described, refused, kept
        )


def _report(plan: _Plan, done: list[_Done], seconds: float, target: Path) -> Report:
    rows = tuple(
        (each.source.name, str(each.target), ", ".join(item["name"] for item in each.outputs)) for each in done
    )
    findings = [
        Finding("warning", "not-written", f"output {name}", f"is not in {each.target}: {reason} does not fit an .npz")
        for each in done
        for name, reason in each.refused.items()
    ]
    if not plan.cut:
        message = "each file was run at once: an answer may hang on the rows beside it"
        findings.append(Finding("info", "scored-whole", "", message))
    return Report(
        "run",
        "ok",
        True,
        fields={
            "outputs": [{"file": str(each.target), **item} for each in done for item in each.outputs],
            "seconds": seconds,
            "engine": "ray",
            "parts": len(plan.parts),
            "path": str(target),
        },
        findings=tuple(findings),
        tables=(Table("files", ("file", "written to", "outputs"), rows),),
        summary=f"{len(done)} files in {len(plan.parts)} parts, {seconds:.3g} s on Ray",
        artifacts={"outputs": done[0].kept} if len(done) == 1 else {},
    )
