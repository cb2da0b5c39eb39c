"""serve: answers over the Open Inference Protocol until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sardonyx.report import Report


def serve(
    source: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    grpc_port: int | None = 8081,
    workers: int = 1,
    instances: int = 1,
    threads: int | None = None,
    provider: str = "cpu",
    max_batch: int | None = None,
    max_delay_ms: float = 0.0,
    pad: tuple[str, ...] = (),
    queue: int = 256,
    timeout_ms: float = 30_000.0,
    max_body_mb: float = 128.0,
    tokens: tuple[str, ...] = (),
    token_file: str | Path | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    control_port: int | None = None,
    control_token: str | None = None,
    promote_tolerance: float | None = None,
    shared_memory: str | None = None,
    access_log: bool = False,
    traces: bool = False,
    allow_hosts: tuple[str, ...] = (),
    isolate: bool = False,
    engine: str = "local",
    check: bool = False,
) -> Report:
    """Serves a model, a bundle or a repository of NAME/VERSION/model.onnx until SIGTERM or Ctrl-C, and says what was done.

    Speaks the Open Inference Protocol over HTTP and gRPC; a `grpc_port` of None leaves gRPC out. With `check`, the models are
    loaded and measured, and nothing is served. A server on a loopback address answers under its names and `allow_hosts`
    alone. With `isolate`, each model runs in a process of its own, which is started again when it dies.
    The `engine` "ray" serves over HTTP on Ray Serve, with `workers` replicas.
    """
    from sardonyx import registry

    registry.need("serve", for_what="serve")
    if traces:
        registry.need("traces", for_what="serve --traces")
    from sardonyx.serve.options import Batching, Limits, Options
    from sardonyx.serve.service import check_only, serve_all

    options = Options(
        source=Path(source), host=host, port=port, grpc_port=grpc_port, workers=workers, instances=instances,
        threads=threads, provider=provider,
        batching=Batching(most=max_batch, delay_seconds=max_delay_ms / 1e3, queue=queue,
                          timeout_seconds=timeout_ms / 1e3, pad=pad),
        limits=Limits.of(max_body_mb),
        tokens=tokens, token_file=_path(token_file), tls_cert=_path(tls_cert), tls_key=_path(tls_key),
        control_port=control_port, control_token=control_token, promote_tolerance=promote_tolerance,
        shared_memory=shared_memory, access_log=access_log, traces=traces, engine=engine,
        allow_hosts=allow_hosts, isolate=isolate,
    )  # fmt: skip
    return check_only(options) if check else serve_all(options)


def _path(word: str | Path | None) -> Path | None:
    return None if word is None else Path(word)
