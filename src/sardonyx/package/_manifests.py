"""Whether manifests fit each other: every name, label and port is followed to what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Manifests = Mapping[str, Any]
Problem = tuple[str, str]
_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_HEALTH = {"startupProbe": "/v2/health/ready", "livenessProbe": "/v2/health/live", "readinessProbe": "/v2/health/ready"}
_NEEDED = ("livenessProbe", "readinessProbe")
_LOCKED = {
    "runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "privileged": False,
}  # fmt: skip


def problems(manifests: Manifests) -> Iterator[Problem]:
    """What is wrong, and in which manifest: `deployment`, `service`, `autoscaler`, `serving-runtime`, `inference-service`."""
    for rule in _RULES:
        try:
            yield from rule(manifests)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            yield rule.__name__.strip("_"), f"a part is missing or of another kind: {type(error).__name__} {error}"


def _names(manifests: Manifests) -> Iterator[Problem]:
    for where, manifest in manifests.items():
        if not _LABEL.fullmatch(manifest["metadata"]["name"]):
            yield where, f"'{manifest['metadata']['name']}' is no name for Kubernetes"


def _selectors(manifests: Manifests) -> Iterator[Problem]:
    labels = _pod(manifests)["metadata"]["labels"].items()
    if not manifests["deployment"]["spec"]["selector"]["matchLabels"].items() <= labels:
        yield "deployment", "its selector does not choose its own pods"
    if not manifests["service"]["spec"]["selector"].items() <= labels:
        yield "service", "its selector does not choose the deployment's pods"


def _ports(manifests: Manifests) -> Iterator[Problem]:
    named = {port["name"]: port["containerPort"] for port in _server(manifests)["ports"]}
    for port in manifests["service"]["spec"]["ports"]:
        if port["targetPort"] not in named:
            yield "service", f"no container has the port {port['targetPort']}"
    for where, container in _containers(manifests):
        words = container["args"]
        listening = {int(words[words.index(option) + 1]) for option in ("--port", "--grpc-port")}
        for port in container["ports"]:
            if port["containerPort"] not in listening:
                yield where, f"nothing listens on the port {port['containerPort']}"
        known = {port["containerPort"] for port in container["ports"]} | {
            port.get("name") for port in container["ports"]
        }
        for probe in sorted({*_NEEDED, *(_HEALTH.keys() & container.keys())}):
            asked, path = container[probe]["httpGet"], _HEALTH[probe]
            if asked["port"] not in known:
                yield where, f"{probe} asks the port {asked['port']}, which the container does not have"
            if asked["path"] != path:
                yield where, f"{probe} asks {asked['path']}, and health is at {path}"


def _security(manifests: Manifests) -> Iterator[Problem]:
    for where, container in _containers(manifests):
        context = container["securityContext"]
        for name, value in _LOCKED.items():
            if context.get(name) is not value:
                yield where, f"{name} is not {value}"
        if context["capabilities"]["drop"] != ["ALL"]:
            yield where, "it keeps capabilities"
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        volumes = {volume["name"] for volume in _volumes(manifests, where)}
        if mounted != volumes:
            yield where, f"it mounts {sorted(mounted)}, and the pod has {sorted(volumes)}"


def _resources(manifests: Manifests) -> Iterator[Problem]:
    for where, container in _containers(manifests):
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        for kind in ("cpu", "memory"):
            if _amount(requests[kind]) > _amount(limits[kind]):
                yield where, f"it asks for more {kind} than it may have"


def _scaling(manifests: Manifests) -> Iterator[Problem]:
    spec, deployment = manifests["autoscaler"]["spec"], manifests["deployment"]
    wanted = {key: deployment[key] for key in ("apiVersion", "kind")} | {"name": deployment["metadata"]["name"]}
    if spec["scaleTargetRef"] != wanted:
        yield "autoscaler", f"it scales {spec['scaleTargetRef']}, and the deployment is {wanted}"
    if not 1 <= spec["minReplicas"] <= spec["maxReplicas"]:
        yield "autoscaler", "minReplicas is above maxReplicas"
    if "replicas" in deployment["spec"]:
        yield "deployment", "replicas would undo what the autoscaler did"


def _runtime(manifests: Manifests) -> Iterator[Problem]:
    runtime, model = manifests["serving-runtime"], manifests["inference-service"]["spec"]["predictor"]["model"]
    container = runtime["spec"]["containers"][0]
    if model["runtime"] != runtime["metadata"]["name"]:
        yield "inference-service", f"there is no ServingRuntime {model['runtime']}"
    if model["modelFormat"] not in runtime["spec"]["supportedModelFormats"]:
        yield "inference-service", f"the ServingRuntime does not take {model['modelFormat']}"
    if model["protocolVersion"] not in runtime["spec"]["protocolVersions"]:
        yield "inference-service", f"the ServingRuntime does not speak {model['protocolVersion']}"
    if container["name"] != "kserve-container" or "/mnt/models" not in container["args"]:
        yield "serving-runtime", "KServe runs a container called kserve-container, with the model in /mnt/models"
    if container["image"] != _server(manifests)["image"]:
        yield "serving-runtime", "it runs another image than the deployment"


_RULES: tuple[Callable[[Manifests], Iterator[Problem]], ...] = (
    _names, _selectors, _ports, _security, _resources, _scaling, _runtime,
)  # fmt: skip


def _pod(manifests: Manifests) -> Any:
    return manifests["deployment"]["spec"]["template"]


def _server(manifests: Manifests) -> Any:
    return _pod(manifests)["spec"]["containers"][0]


def _containers(manifests: Manifests) -> Iterator[tuple[str, Any]]:
    yield "deployment", _server(manifests)
    yield "serving-runtime", manifests["serving-runtime"]["spec"]["containers"][0]


def _volumes(manifests: Manifests, where: str) -> Any:
    return (_pod(manifests) if where == "deployment" else manifests[where])["spec"]["volumes"]


def _amount(quantity: str) -> float:
    """'512Mi' -> 512, '2' -> 2: enough to compare two of a kind that were written alike."""
    return float(quantity.removesuffix("Mi"))
