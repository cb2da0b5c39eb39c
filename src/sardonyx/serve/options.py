"""How a server is set up: addresses, threads, batching, and the limits that keep one client from harming the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sardonyx import machine
from sardonyx.errors import UsageError


@dataclass(frozen=True)
class Limits:
    """What a request may cost. Whoever goes beyond is refused, and the server goes on.

    `json_bytes` bounds the JSON of a request, and of a gRPC request all but its raw tensors. `strings` are the elements of a
    tensor of text. `held_bytes` are those of all bodies that a process holds at once; one client may hold half of them, or one
    body. `calls` are those over gRPC that may be under way at once.
    """

    body_bytes: int = 128 << 20
    header_bytes: int = 32 << 10
    headers: int = 100
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    idle_seconds: float = 75.0
    write_seconds: float = 60.0
    elements: int = 1 << 28
    output_bytes: int = 512 << 20
    connections: int = 4096
    json_bytes: int = 32 << 20
    strings: int = 1 << 20
    held_bytes: int = 512 << 20
    calls: int = 512
    pipelined: int = 16

    @classmethod
    def of(cls, body_mb: float) -> Limits:
        """The limits where the largest body has so many MiB."""
        if not 0 < body_mb < 1 << 20:
            raise UsageError(f"a body cannot have {body_mb:g} MB", hint="give a number above 0")
        body_bytes = int(body_mb * (1 << 20))
        return cls(body_bytes=body_bytes, held_bytes=max(cls.held_bytes, 4 * body_bytes))

    @property
    def text_bytes(self) -> int:
        """The JSON of one request."""
        return min(self.json_bytes, self.body_bytes)

    @property
    def client_bytes(self) -> int:
        """The bytes that one client's bodies may hold."""
        return max(self.held_bytes // 2, self.body_bytes)


@dataclass(frozen=True)
class Batching:
    """How requests are put together. `most` of None lets the warm-up decide; 1 switches batching off."""

    most: int | None = None
    delay_seconds: float = 0.0
    queue: int = 256
    timeout_seconds: float = 30.0
    pad: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.most is not None and self.most < 1) or self.queue < 1:
            raise UsageError("a batch and a queue hold at least one request", hint="give 1 or more")
        if self.delay_seconds < 0 or self.timeout_seconds <= 0:
            raise UsageError("a delay cannot be negative, and a timeout must be above 0", hint="give milliseconds")


@dataclass(frozen=True)
class Options:
    """Everything `sardonyx serve` can be told."""

    source: Path
    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int | None = 8081
    workers: int = 1
    instances: int = 1
    threads: int | None = None
    provider: str = "cpu"
    batching: Batching = field(default_factory=Batching)
    limits: Limits = field(default_factory=Limits)
    tokens: tuple[str, ...] = ()
    token_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    control_port: int | None = None
    control_token: str | None = None
    shared_memory: str | None = None
    promote_tolerance: float | None = None
    access_log: bool = False
    traces: bool = False
    drain_seconds: float = 30.0
    load_seconds: float = 300.0
    allow_hosts: tuple[str, ...] = ()
    isolate: bool = False
    engine: str = "local"

    @property
    def threads_each(self) -> int:
        """Threads of one run: as asked for, or the container's CPUs shared by all runs that go on at once."""
        return self.threads or max(1, machine.threads() // (self.workers * self.instances))

    def __post_init__(self) -> None:
        if self.engine not in ("local", "ray"):
            raise UsageError(f"there is no engine '{self.engine}'", hint="the engines are local and ray")
        if self.workers < 1 or self.instances < 1:
            raise UsageError("a server has at least one worker and one instance", hint="give 1 or more")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError("TLS needs both a certificate and a key", hint="give --tls-cert and --tls-key")
        if (self.control_port is None) != (self.control_token is None):
            raise UsageError(
                "model control needs a port and a token of its own", hint="give --control-port and --control-token"
            )
        if self.workers > 1 and (self.control_port is not None or self.shared_memory is not None):
            raise UsageError(
                "model control and shared memory reach one worker only",
                hint="use --workers 1 with --control-port and with --shared-memory",
            )
        if self.promote_tolerance is not None and self.promote_tolerance < 0:
            raise UsageError("a tolerance cannot be negative", hint="give a share of the largest value, as 0.001")
        if self.shared_memory == "":
            raise UsageError(
                "shared memory needs a prefix", hint="give the first letters of the names, as --shared-memory app_"
            )
