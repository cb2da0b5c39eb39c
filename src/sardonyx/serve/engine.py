"""Models that are loaded: found by name and version, run through their queues, and given back to the system on unload."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterable

from sardonyx.errors import BrokenModel, RuntimeRefused, SardonyxError
from sardonyx.serve import repository
from sardonyx.serve.memory import trim
from sardonyx.serve.options import Options
from sardonyx.serve.refusal import BAD, NOT_FOUND, UNAVAILABLE, Refusal, plain
from sardonyx.serve.repository import Entry
from sardonyx.serve.served import Served
from sardonyx.serve.threads import in_thread
from sardonyx.serve.traces import open_traces
from sardonyx.serve.trial import Verdict, try_models

_log = logging.getLogger(__name__)


class Models:
    """The models of a server by name and version."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._traces = open_traces() if options.traces else None
        self.failures: dict[tuple[str, str], str] = {}
        self._served: dict[str, dict[str, Served]] = {}
        # One for each model: a load that takes its time does not hold up those of others.
        self._changing: dict[str, asyncio.Lock] = {}
        self.stopping = False
        self.generation = 0  # grows with every change, for those who keep what they found

    async def load_all(self) -> None:
        """Loads everything that the source holds. One bad model of a repository is refused, and the others are served."""
        entries = repository.find(self.options.source)
        errors: list[SardonyxError] = []
        verdicts = await in_thread(try_models, [entry.path for entry in entries], self.options)
        for entry in entries:
            try:
                await self._load(entry, verdicts[entry.path])
            except SardonyxError as error:
                errors.append(error)
        if len(errors) == len(entries):
            raise errors[0]
        for (name, version), why in self.failures.items():
            _log.warning("refused model %s version %s: %s", plain(name), version, plain(why))

    async def load(self, name: str) -> None:
        """Loads the versions of a model that lie in the source now, and lets go of those that do not.

        The newest must stand up to the one it replaces; if it does not, everything stays as it is.
        """
        from sardonyx.serve.promote import must_be_good

        if not await in_thread(repository.named, self.options.source, name):
            raise Refusal(NOT_FOUND, f"the repository has no model {name}")
        async with self._changing.setdefault(name, asyncio.Lock()):
            fresh: dict[str, Served] = {}
            try:
                entries = await in_thread(repository.named, self.options.source, name)
                verdicts = await in_thread(try_models, [entry.path for entry in entries], self.options)
                for entry in entries:
                    fresh[entry.version] = await self._made(entry, verdicts[entry.path])
                before = self.find(name) if name in self._served else None
                newest = fresh[entries[-1].version]
                await in_thread(must_be_good, newest, before, self.options.promote_tolerance)
            except SardonyxError as error:
                await _let_go(fresh.values())
                _log.warning("refused model %s: %s", plain(name), plain(error.message))
                raise Refusal(BAD, f"model {name}: {error.message}") from error
            old = self._served.get(name, {})
            self._served[name] = {version: served.open(self.options) for version, served in fresh.items()}
            self.generation += 1
            await _let_go(old.values())

    async def unload(self, name: str) -> None:
        """Answers what is queued for the model, and gives its memory back."""
        if name not in self._served:
            raise Refusal(NOT_FOUND, f"no model {name} is loaded")
        async with self._changing.setdefault(name, asyncio.Lock()):
            if name not in self._served:
                raise Refusal(NOT_FOUND, f"no model {name} is loaded")
            self.generation += 1
            await _let_go(self._served.pop(name).values())

    async def close(self, *, at_once: bool = False) -> None:
        """Answers what is queued and lets the models go. `at_once` stops what is under way."""
        self.stopping = True
        await _let_go(self.all(), at_once=at_once)
        self._served = {}
        if self._traces is not None:
            await in_thread(self._traces.close)

    def find(self, name: str, version: str | None = None) -> Served:
        """The model, in its newest version unless one is named, or a refusal."""
        versions = self._served.get(name)
        if not versions:
            raise Refusal(NOT_FOUND, f"no model {name} is loaded here")
        if version is None:
            return next(reversed(versions.values()))
        if version not in versions:
            raise Refusal(NOT_FOUND, f"model {name} has no version {version}; it has {', '.join(versions)}")
        return versions[version]

    def only(self, visible: frozenset[str] | None = None) -> Served:
        """The one model of the server that a caller may see, or a refusal where there are several."""
        names = [name for name in self._served if visible is None or name in visible]
        if len(names) != 1:
            raise Refusal(NOT_FOUND, f"name a model: {', '.join(names) or 'none is loaded'}")
        return self.find(names[0])

    def all(self, visible: frozenset[str] | None = None) -> list[Served]:
        """The models that are loaded, or those of them whose names a caller may see."""
        return [
            served
            for name, versions in self._served.items()
            if visible is None or name in visible
            for served in versions.values()
        ]

    def versions(self, name: str) -> list[str]:
        return list(self._served.get(name, ()))

    async def index(self) -> list[dict[str, str]]:
        """What the repository holds, and whether each is ready."""
        entries = await in_thread(repository.find, self.options.source)
        loaded = {(served.name, served.version) for served in self.all()}
        rows = {(entry.name, entry.version) for entry in entries} | loaded
        return [
            {"name": name, "version": version, "state": "READY", "reason": ""}
            if (name, version) in loaded
            else {
                "name": name, "version": version, "state": "UNAVAILABLE",
                "reason": self.failures.get((name, version), "unloaded"),
            }
            for name, version in sorted(rows)
        ]  # fmt: skip

    def ready(self) -> None:
        """Raises a refusal while the server is not ready."""
        if self.stopping:
            raise Refusal(UNAVAILABLE, "the server is stopping", retry_after=1)

    async def _load(self, entry: Entry, verdict: Verdict) -> None:
        served = await self._made(entry, verdict)
        versions = self._served.setdefault(entry.name, {})
        versions[entry.version] = served.open(self.options)
        self.generation += 1

    async def _made(self, entry: Entry, verdict: Verdict) -> Served:
        try:
            if verdict.error is not None:
                raise verdict.error
            served = await in_thread(self._build, entry, verdict)
        except SardonyxError as error:
            self.failures[entry.name, entry.version] = error.message
            raise
        self.failures.pop((entry.name, entry.version), None)
        return served

    def _build(self, entry: Entry, verdict: Verdict) -> Served:
        """The model that was tried, whatever is wrong with it a `SardonyxError`: others of the repository are served."""
        try:
            before = _identity(entry)
            served = Served(entry, self.options, self._traces, verdict)
        except SardonyxError:
            raise
        except Exception as error:
            _log.exception("loading %s failed by a fault of the server", plain(str(entry.path)))
            raise RuntimeRefused(
                f"{entry.path} cannot be served: {type(error).__name__}: {error}", hint=f"sardonyx check {entry.path}"
            ) from error
        if _identity(entry) != before:
            raise BrokenModel(f"{entry.path} was changed while it was loaded", hint="load it again")
        return served


def _identity(entry: Entry) -> tuple[int, int, int]:
    found = entry.path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


async def _let_go(models: Iterable[Served], *, at_once: bool = False) -> None:
    models = list(models)
    for served in models:
        await served.close(at_once=at_once)
    if models:
        gc.collect()
        trim()
