"""A variant in a process of its own, which times itself: its clock never sees the pipe."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from sardonyx import containment
from sardonyx.bench.interleave import Turn
from sardonyx.errors import SourceFailed
from sardonyx.sandbox import Confinement
from sardonyx.signature import Array, Arrays
from sardonyx.sources import Worker, WorkerDied, source_failed

WORKERS = Path(__file__).parent / "workers"


class Process:
    """Runs `workers/<name>.py` on a model file. Use it in a `with` block: the process ends with the block.

    It may take `timeout` seconds for each answer.
    """

    def __init__(self, name: str, request: Mapping[str, Any], *, threads: int | None, timeout: float) -> None:
        self._request = {"form": "onnx", **request}
        self._timeout = timeout
        self._scratch = tempfile.TemporaryDirectory(prefix="sardonyx-")
        confinement = Confinement(
            reads=(str(Path(request["path"]).absolute().parent), str(Path(request["path"]).resolve())),
            writes=(self._scratch.name,),
            memory=containment.address_space(request["path"]),
        )
        self._worker = Worker(WORKERS / f"{name}.py", environment=environment(threads), confinement=confinement)

    def __enter__(self) -> Process:
        try:
            self._ask("open", source=self._request)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.__exit__()
        self._scratch.cleanup()

    @property
    def folder(self) -> Path:
        """Where the process reads and writes: it may not elsewhere."""
        return Path(self._scratch.name)

    def prepare(self, inputs: Arrays) -> Turn:
        self._ask("prepare", inputs=self._saved(inputs), options={})
        return self._turn

    def predict(self, inputs: Arrays) -> list[Any]:
        """The outputs for the inputs, in the model's own order."""
        (answer,) = self._ask("predict", inputs=[self._saved(inputs)])["outputs"]
        if "error" in answer:
            raise source_failed(f"{self._request['path']} does not run", answer["error"])
        with np.load(answer["path"], allow_pickle=False) as file:
            return [file[name] for name in sorted(file.files)]

    def peak_memory(self) -> int | None:
        return self._ask("peak")["peak"]

    def _saved(self, inputs: Arrays) -> str:
        """The file that the process reads them from. Strings become a type that .npz holds without pickle."""
        path = self.folder / "inputs.npz"
        plain = {name: array.astype(str) if array.dtype == object else array for name, array in inputs.items()}
        np.savez(path, **plain)  # type: ignore[arg-type]
        return str(path)

    def _turn(self, repeats: int) -> Array:
        return np.array(self._ask("time", repeats=repeats)["taken"])

    def _ask(self, task: str, **request: Any) -> dict[str, Any]:
        try:
            answer = self._worker.ask(task, timeout=self._timeout, **request)
        except WorkerDied as died:
            hint = died.last_words.splitlines()[-1] if died.last_words else "run it alone to see what it prints"
            raise SourceFailed(f"{self._request['path']}: {died.reason}", hint=hint) from died
        if not answer["ok"]:
            raise source_failed(f"{self._request['path']} does not run", answer["error"])
        return answer


def environment(threads: int | None) -> dict[str, str]:
    """What tells the libraries of every framework how many threads to take, before they are imported."""
    if threads is None:
        return {}
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    found = {name: str(threads) for name in names} | {"TF_NUM_INTEROP_THREADS": "1"}
    if threads == 1:  # XLA knows one thread or all
        found["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return found
