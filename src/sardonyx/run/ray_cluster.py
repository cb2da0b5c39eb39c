"""Ray, for the time of a block: the cluster that RAY_ADDRESS names, or one on this machine that ends with the block."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sardonyx import registry
from sardonyx.errors import RuntimeRefused

_OBJECT_STORE_BYTES = 256 << 20
# Ray reports usage unless told otherwise, and its own log goes to a terminal as well as to its files.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}


def set_environment(also: Mapping[str, str] | None = None) -> None:
    """Sets what Ray reads at its import, where nobody has set it otherwise. Raises `MissingExtra` where there is no Ray."""
    registry.need("ray", for_what="the engine ray")
    for name, value in {**_QUIET, **(also or {})}.items():
        os.environ.setdefault(name, value)


@contextmanager
def cluster(cpus: int, also: Mapping[str, str] | None = None) -> Iterator[Any]:
    """The module `ray`, connected. A connection that the caller's program has made already is used and left open."""
    set_environment(also)
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)
    if ray.is_initialized():
        yield ray
        return
    address = os.environ.get("RAY_ADDRESS", "local")
    own = {"num_cpus": cpus, "object_store_memory": _OBJECT_STORE_BYTES, "include_dashboard": False}
    try:
        ray.init(address=address, logging_level="error", log_to_driver=False, **(own if address == "local" else {}))
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RuntimeRefused(
            f"Ray does not start at {address}: {error}", hint="look at RAY_ADDRESS, or unset it to start Ray here"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()
