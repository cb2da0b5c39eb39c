"""What a process that does nothing but serve sets for itself, before gRPC is imported."""

from __future__ import annotations

import os
from importlib.metadata import version

from sardonyx import machine

_EXPERIMENTS = "GRPC_EXPERIMENTS"
# gRPC's older polling reads a request in the thread that waits for it; the newer one hands it from thread to thread. On one
# CPU that costs nothing, and the newer one gathers larger batches.
_OLDER_POLLING = "-event_engine_listener,-event_engine_client"
# The newest gRPC whose switches are known to have these names: one that has dropped them would complain on stderr.
_KNOWN_GRPC = (1, 85)


def settle() -> None:
    """Has gRPC poll the way that is cheaper on several CPUs, unless the user has set its experiments."""
    if machine.threads() > 1 and tuple(map(int, version("grpcio").split(".")[:2])) <= _KNOWN_GRPC:
        os.environ.setdefault(_EXPERIMENTS, _OLDER_POLLING)
