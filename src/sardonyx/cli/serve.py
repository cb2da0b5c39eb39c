from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import sardonyx
from sardonyx.report import Report

Pad = Annotated[
    list[str],
    typer.Option(metavar="DIM", help="A dynamic dimension in which requests of different sizes are padded with zeros."),
]
PromoteTolerance = Annotated[
    float | None,
    typer.Option(
        help="A model loaded anew must agree with the one it replaces, within this share of the largest value."
    ),
]
SharedMemory = Annotated[
    str | None,
    typer.Option(metavar="PREFIX", help="Let clients pass tensors in /dev/shm, in files that begin with this."),
]
AllowHost = Annotated[
    list[str],
    typer.Option(
        metavar="NAME",
        help="A further name under which the server may be called, and pages of which may call it. May be repeated.",
    ),
]
Isolate = Annotated[
    bool,
    typer.Option("--isolate", help="Run each model in a process of its own, which is started again when it dies."),
]
Engine = Annotated[
    str, typer.Option(help="local, or ray: replicas on a Ray cluster, over HTTP alone, as many as --workers says.")
]


def serve(
    source: Annotated[
        Path, typer.Argument(help="A model, a bundle, or a repository laid out as NAME/VERSION/model.onnx.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen on; this machine alone by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port for HTTP; 0 takes any that is free.", min=0, max=65535)] = 8080,
    grpc_port: Annotated[int, typer.Option(help="The port for gRPC; -1 leaves gRPC out.", min=-1, max=65535)] = 8081,
    workers: Annotated[int, typer.Option(help="Processes that share the ports.")] = 1,
    instances: Annotated[int, typer.Option(help="Runs of one model that may go on at once in a process.")] = 1,
    threads: Annotated[
        int | None, typer.Option(help="Threads of one run; the container's CPUs are shared out by default.")
    ] = None,
    provider: Annotated[str, typer.Option(help="Execution provider, as cpu or cuda.")] = "cpu",
    max_batch: Annotated[
        int | None, typer.Option(help="The most rows of a run; measured at the start by default, and 1 never batches.")
    ] = None,
    max_delay_ms: Annotated[float, typer.Option(help="How long a request may wait for others to join it.")] = 0.0,
    pad: Pad = [],  # noqa: B006
    queue: Annotated[int, typer.Option(help="Requests that may wait for a model; more are refused.")] = 256,
    timeout_ms: Annotated[
        float, typer.Option(help="How long a request may wait, and how long a run may take, before it is refused.")
    ] = 30_000.0,
    max_body_mb: Annotated[float, typer.Option(help="The largest request, in MiB.")] = 128.0,
    token: Annotated[
        list[str], typer.Option(help="A token that callers must send. May be repeated. Other users see it in ps.")
    ] = [],  # noqa: B006
    token_file: Annotated[
        Path | None, typer.Option(help="Tokens, one a line, each with the models that it is for, or for all.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate for TLS, as PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate, as PEM.")] = None,
    control_port: Annotated[
        int | None, typer.Option(help="The port on which models are loaded and unloaded.", min=0, max=65535)
    ] = None,
    control_token: Annotated[str | None, typer.Option(help="The token that model control asks for.")] = None,
    promote_tolerance: PromoteTolerance = None,
    shared_memory: SharedMemory = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request on stderr.")] = False,
    traces: Annotated[
        bool,
        typer.Option("--traces", help="Send OpenTelemetry spans, where its OTEL_EXPORTER_OTLP_ variables say."),
    ] = False,
    allow_host: AllowHost = [],  # noqa: B006
    isolate: Isolate = False,
    engine: Engine = "local",
    check: Annotated[bool, typer.Option("--check", help="Load and measure the models, then end.")] = False,
) -> Report:
    """Serve models over the Open Inference Protocol, HTTP and gRPC, until Ctrl-C or SIGTERM."""
    return sardonyx.serve(
        source, host=host, port=port, grpc_port=None if grpc_port < 0 else grpc_port, workers=workers, instances=instances,
        threads=threads, provider=provider, max_batch=max_batch, max_delay_ms=max_delay_ms, pad=tuple(pad), queue=queue,
        timeout_ms=timeout_ms, max_body_mb=max_body_mb, tokens=tuple(token), token_file=token_file, tls_cert=tls_cert,
        tls_key=tls_key, control_port=control_port, control_token=control_token, promote_tolerance=promote_tolerance,
        shared_memory=shared_memory, access_log=access_log, traces=traces, allow_hosts=tuple(allow_host), isolate=isolate,
        engine=engine, check=check,
    )  # fmt: skip
