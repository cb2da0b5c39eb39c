"""The same server on Ray Serve: replicas that a cluster starts and watches, behind HAProxy."""

from __future__ import annotations

import logging
import os
import random
import signal
import socket
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from sardonyx import machine
from sardonyx.errors import OutputError, RuntimeRefused, UsageError
from sardonyx.report import Report
from sardonyx.run.ray_cluster import cluster, set_environment
from sardonyx.serve import repository
from sardonyx.serve.options import Options
from sardonyx.serve.server import bound
from sardonyx.serve.trial import try_models

# Ray reads these when it is imported. Without the first two, requests go through a Python proxy, at a fraction of the rate;
# without the third, a proxy that a busy machine does not start in five seconds is begun again and again.
SETTINGS = {
    "RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
}  # fmt: skip
# A replica that is told to go waits this long for the proxies of other nodes to hear of it. Here there is one node.
_ONE_NODE = {"RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1"}
# Ports of HAProxy and of Ray's own proxy that nobody asks for. Their defaults allow one server on a machine.
PORTS = ("RAY_SERVE_HAPROXY_METRICS_PORT", "RAY_SERVE_HAPROXY_STATS_PORT", "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT")
# Below the ports that systems give to outgoing connections, and below those that Ray gives to its replicas.
_SPARE = range(20_000, 30_000)
NAME = "sardonyx"


def application(source: str | Path, *, replicas: int = 1, threads: int = 1, **options: Any) -> Any:
    """A Ray Serve application that answers for a model, a bundle or a repository. `options` are those of `Options`.

    Every node must find the source under the same path.
    """
    set_environment(SETTINGS)
    from ray import serve

    from sardonyx.serve.asgi import Application

    ingress = serve.ingress(Application(Path(source).resolve(), threads=threads, **options))()
    deployment = serve.deployment(ingress).options(
        name=NAME,
        num_replicas=replicas,
        # Requests wait in our own queue, which batches them and says when it is full.
        max_ongoing_requests=Options(Path(source), **options).batching.queue,
        ray_actor_options={"num_cpus": threads},
    )
    return deployment.bind()


def serve_on_ray(options: Options) -> Report:
    """Serves until SIGTERM or SIGINT: on the cluster of RAY_ADDRESS, or on one that is started here and ends with it."""
    _refuse_what_ray_does_not(options)
    set_environment(SETTINGS)
    _must_load(options)
    spare, *others = spare_ports(1 + len(PORTS))
    port = _free(options.host, options.port or spare)
    environment = dict(SETTINGS)
    if "RAY_ADDRESS" not in os.environ:
        environment |= {**_ONE_NODE, **dict(zip(PORTS, map(str, others), strict=True))}
    told = threading.Event()
    with cluster(max(machine.threads(), options.workers * options.threads_each), environment):
        from ray import serve

        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        _listen_for_signals(told)  # after Ray, which sets handlers of its own
        try:
            serve.start(http_options={"host": options.host, "port": port})
            serve.run(_configured(options), name=NAME, route_prefix="/")
            sys.stderr.write(f"serving on http://{options.host}:{port} with Ray, {options.workers} replicas\n")
            sys.stderr.flush()
            told.wait()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise RuntimeRefused(
                f"Ray Serve does not start: {reason}", hint="see serve/ in the logs of Ray's session, in /tmp/ray"
            ) from error
        finally:
            serve.shutdown()
    summary = f"stopped {options.workers} replicas on Ray"
    return Report("serve", "stopped", True, fields={"engine": "ray", "replicas": options.workers}, summary=summary)


def _configured(options: Options) -> Any:
    return application(
        options.source, replicas=options.workers, threads=options.threads_each, instances=options.instances,
        provider=options.provider, batching=options.batching, limits=options.limits, tokens=options.tokens,
        token_file=options.token_file, isolate=options.isolate,
    )  # fmt: skip


def _listen_for_signals(told: threading.Event) -> None:
    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _refuse_what_ray_does_not(options: Options) -> None:
    asked = {
        "--tls-cert": options.tls_cert, "--control-port": options.control_port, "--shared-memory": options.shared_memory,
        "--promote-tolerance": options.promote_tolerance, "--traces": options.traces or None,
        "--access-log": options.access_log or None,
    }  # fmt: skip
    for option, value in asked.items():
        if value is not None:
            raise UsageError(f"the engine ray has no {option}", hint=f"leave {option} out, or use --engine local")


def _must_load(options: Options) -> None:
    """Tries every model in a child first: an error in a replica would be a page of Ray's own."""
    for verdict in try_models([entry.path for entry in repository.find(options.source)], options).values():
        if verdict.error is not None:
            raise verdict.error


def _free(host: str, port: int) -> int:
    """The port, if nobody has it."""
    with closing(bound(host, port)):
        return port


def spare_ports(count: int) -> list[int]:
    """Ports that are free now, and that no outgoing connection takes until Ray comes to use them, a minute later."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_SPARE, len(_SPARE)):
        # Without SO_REUSEADDR, which would take a port that somebody has bound and does not listen on yet.
        with suppress(OSError), socket.socket() as probing:
            probing.bind(("0.0.0.0", port))
            found.append(port)
        if len(found) == count:
            return found
    raise OutputError(f"fewer than {count} ports are free", hint="stop other servers on this machine")
