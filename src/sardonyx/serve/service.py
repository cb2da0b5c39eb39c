"""What `sardonyx serve` does in one process: a check of the models, or a server that says where it listens and what it did."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sardonyx import registry
from sardonyx.report import Report, Table
from sardonyx.serve.engine import Models
from sardonyx.serve.options import Options
from sardonyx.serve.refusal import plain
from sardonyx.serve.served import Served
from sardonyx.serve.server import Server, run_loop, serve_until_told

_LOGGED_CHARACTERS = 4000
_OWN = ("127.0.0.1", "::1", "localhost")


def check_only(options: Options) -> Report:
    """Loads and measures every model, and serves nothing."""

    async def look() -> list[dict[str, Any]]:
        models = Models(options)
        await models.load_all()
        rows = [_row(served) for served in models.all()]
        await models.close()
        return rows

    rows: list[dict[str, Any]] = run_loop(look())
    return Report(
        "serve",
        "ready",
        True,
        fields={"models": rows},
        tables=(_table(rows),),
        summary=f"{len(rows)} loaded, none served",
    )


def serve_all(options: Options) -> Report:
    """Serves until it is told to stop."""
    if options.engine == "ray":
        registry.need("ray", for_what="the engine ray")
        from sardonyx.serve.ray_serve import serve_on_ray

        return serve_on_ray(options)
    with logged_on_stderr(options):
        if options.workers > 1:
            from sardonyx.serve.workers import supervise

            return supervise(options)
        done: Server = run_loop(
            serve_until_told(options, lambda server: say_where(options, server.ports, model_lines(server)))
        )
    return report(done.answered)


def report(answered: int) -> Report:
    return Report("serve", "stopped", True, fields={"answered": answered}, summary=f"answered {answered} requests")


def model_lines(server: Server) -> list[str]:
    """A line on each model that was loaded."""
    return [f"loaded {each.name} version {each.version}: {each.policy.reason}" for each in server.models.all()]


def say_where(options: Options, ports: dict[str, int], models: Iterable[str]) -> None:
    """Tells on stderr what is served and where."""
    scheme = "https" if options.tls_cert else "http"
    host = f"[{options.host}]" if ":" in options.host else options.host
    lines = [plain(line) for line in models]
    if options.host not in _OWN and not (options.tokens or options.token_file):
        lines.append("warning: everyone who reaches this address may call; --token asks for a token")
    places = [f"serving on {scheme}://{host}:{ports['http']}"]
    places += [f"gRPC on {host}:{ports['grpc']}"] if "grpc" in ports else []
    places += [f"control on {scheme}://{host}:{ports['control']}"] if "control" in ports else []
    sys.stderr.write("\n".join((*lines, ", ".join(places))) + "\n")
    sys.stderr.flush()


def _row(served: Served) -> dict[str, Any]:
    return {**served.metadata, "version": served.version, "batching": served.policy.to_dict()}


def _table(rows: list[dict[str, Any]]) -> Table:
    return Table(
        "models",
        ("model", "version", "largest batch", "why"),
        tuple((row["name"], row["version"], row["batching"]["max_batch"], row["batching"]["reason"]) for row in rows),
    )


class OneLine(logging.Formatter):
    """A line for a message, whatever the message quotes: a client could else write lines of its own into the log."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = plain(record.message, _LOGGED_CHARACTERS)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return "\n".join(plain(line, _LOGGED_CHARACTERS) for line in super().formatException(ei).splitlines())


@contextmanager
def logged_on_stderr(options: Options) -> Iterator[None]:
    """What is refused is logged while the block runs, and with an access log every request too."""
    logger = logging.getLogger("sardonyx.serve")
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if options.access_log else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
