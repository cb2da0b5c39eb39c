"""Manifests for Kubernetes: the model on KServe, or as a Deployment with a Service and an autoscaler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sardonyx.errors import UsageError
from sardonyx.package._manifests import problems
from sardonyx.package._subject import Subject, Wishes
from sardonyx.report import Finding

REQUIRES = "package"
TAKES = {"image", "storage_uri"}
STEPS = (
    "kubectl apply -f {folder}/kubernetes",
    "or, with KServe: copy {folder}/models to the storageUri of {folder}/kserve/inference-service.yaml, "
    "then kubectl apply -f {folder}/kserve",
)
CODES = {"kserve-manifest": "A manifest is unreadable, or does not fit the others."}
HTTP, GRPC, USER = 8080, 8081, 10001
LIVE, READY = "/v2/health/live", "/v2/health/ready"
# Where KServe puts what it fetched from the storageUri, and where the image of the docker target keeps its own model.
MOUNTED, BUILT_IN = "/mnt/models", "/models"
SCHEMES = ("gs://", "s3://", "pvc://", "hdfs://", "webhdfs://", "https://", "http://", "oci://", "hf://", "abfs://")
_MIB = 1 << 20
# The interpreter and the libraries, and how often the weights lie in memory while a model is loaded.
_EMPTY_BYTES, _COPIES = 384 * _MIB, 3
_README = """# {name} on Kubernetes

Build the image once, with `sardonyx package MODEL --target docker -o image --name {name}`, and push it as `{image}`. Then either

    kubectl apply -f kubernetes                             # a Deployment, a Service and an autoscaler
    kubectl port-forward service/{label} 8080
    curl http://127.0.0.1:8080/v2/models/{name}

or, on a cluster with KServe, copy the folder `models` to `{storage}` and

    kubectl apply -f kserve                                 # a ServingRuntime and an InferenceService
"""


def package(subject: Subject, folder: Path, wishes: Wishes) -> list[Finding]:
    import yaml

    subject.must_be_servable()
    storage = wishes.storage_uri or f"pvc://{subject.label}-models/models"
    if not storage.startswith(SCHEMES):
        raise UsageError(f"KServe fetches nothing from '{storage}'", hint=f"begin it with one of {', '.join(SCHEMES)}")
    image = wishes.image or f"{subject.label}:1"
    subject.write(folder / "models" / subject.name / "1")
    for path, make in MANIFESTS.items():
        target = folder / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(yaml.safe_dump(make(subject, image, storage), sort_keys=False))
    readme = _README.format(name=subject.name, label=subject.label, image=image, storage=storage)
    (folder / "README.md").write_text(readme)
    return []


def check(folder: Path) -> list[Finding]:
    """Reads every manifest again and follows each name, label and port to what it means."""
    return [
        Finding("error", "kserve-manifest", where, message, "package the model again")
        for where, message in _problems(folder)
    ]


def _problems(folder: Path) -> Iterator[tuple[str, str]]:
    import yaml

    found: dict[str, Any] = {}
    for name in MANIFESTS:
        try:
            found[name] = yaml.safe_load((folder / name).read_text())
        except (OSError, yaml.YAMLError) as error:
            yield name, f"unreadable: {error}"
    if len(found) == len(MANIFESTS):
        yield from problems({Path(name).stem: manifest for name, manifest in found.items()})


def _head(subject: Subject, kind: str, version: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": _labels(subject)}}


def _labels(subject: Subject) -> dict[str, str]:
    return {"app.kubernetes.io/name": subject.label, "app.kubernetes.io/component": "inference"}


def _deployment(subject: Subject, image: str, storage: str) -> dict[str, Any]:  # noqa: ARG001  all are called alike
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 45,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "server",
                **_container(subject, image, BUILT_IN),
                "ports": [{"name": "http", "containerPort": HTTP}, {"name": "grpc", "containerPort": GRPC}],
                **_STARTUP,
                **_probes("http", failures=3),
                # Time for the load balancer to hear that this one is going.
                "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
                "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
            }
        ],
        "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "64Mi"}}],
    }  # fmt: skip
    # No number of replicas: that is the autoscaler's, and applying the file again would undo what it did.
    return {
        **_head(subject, "Deployment", "apps/v1", subject.label),
        "spec": {
            "selector": {"matchLabels": _labels(subject)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": _labels(subject)}, "spec": pod},
        },
    }


def _service(subject: Subject, image: str, storage: str) -> dict[str, Any]:  # noqa: ARG001
    return {
        **_head(subject, "Service", "v1", subject.label),
        "spec": {
            "selector": _labels(subject),
            "ports": [
                {"name": "http", "port": HTTP, "targetPort": "http", "appProtocol": "http"},
                {"name": "grpc", "port": GRPC, "targetPort": "grpc", "appProtocol": "kubernetes.io/h2c"},
            ],
        },
    }


def _autoscaler(subject: Subject, image: str, storage: str) -> dict[str, Any]:  # noqa: ARG001
    utilization = {"type": "Utilization", "averageUtilization": 70}
    return {
        **_head(subject, "HorizontalPodAutoscaler", "autoscaling/v2", subject.label),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": subject.label},
            "minReplicas": 1,
            "maxReplicas": 8,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}],
        },
    }


def _runtime(subject: Subject, image: str, storage: str) -> dict[str, Any]:  # noqa: ARG001
    return {
        **_head(subject, "ServingRuntime", "serving.kserve.io/v1alpha1", _runtime_name(subject)),
        "spec": {
            "annotations": {"prometheus.kserve.io/port": str(HTTP), "prometheus.kserve.io/path": "/metrics"},
            "supportedModelFormats": [{"name": "onnx", "version": "1"}],
            "protocolVersions": ["v2"],
            "containers": [
                {
                    "name": "kserve-container",  # KServe looks for this name
                    **_container(subject, image, MOUNTED),
                    "ports": [{"containerPort": HTTP, "protocol": "TCP"}],
                    # Knative knows no startup probe: what loads slowly gets two minutes here.
                    **_probes(HTTP, failures=12),
                    "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
                }
            ],
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "64Mi"}}],
        },
    }


def _inference_service(subject: Subject, image: str, storage: str) -> dict[str, Any]:  # noqa: ARG001
    return {
        **_head(subject, "InferenceService", "serving.kserve.io/v1beta1", subject.label),
        "spec": {
            "predictor": {
                "minReplicas": 1,
                "maxReplicas": 8,
                "model": {
                    "modelFormat": {"name": "onnx", "version": "1"},
                    "runtime": _runtime_name(subject),
                    "protocolVersion": "v2",
                    "storageUri": storage,
                },
            }
        },
    }


def _runtime_name(subject: Subject) -> str:
    return f"sardonyx-{subject.label}"


def _container(subject: Subject, image: str, models: str) -> dict[str, Any]:
    """What both ways of serving have in common."""
    memory = -(-(_EMPTY_BYTES + _COPIES * subject.model.weight_bytes()) // _MIB)
    return {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["serve", models, "--host", "0.0.0.0", "--port", str(HTTP), "--grpc-port", str(GRPC)],
        "resources": {
            "requests": {"cpu": "1", "memory": f"{memory}Mi"},
            "limits": {"cpu": "2", "memory": f"{2 * memory}Mi"},
        },
        "securityContext": {
            "runAsNonRoot": True, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "privileged": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }  # fmt: skip


def _probes(port: str | int, *, failures: int) -> dict[str, Any]:
    return {
        "livenessProbe": {
            "httpGet": {"path": LIVE, "port": port}, "periodSeconds": 10, "timeoutSeconds": 3, "failureThreshold": failures,
        },
        "readinessProbe": {"httpGet": {"path": READY, "port": port}, "periodSeconds": 5, "timeoutSeconds": 3},
    }  # fmt: skip


# A slow start is no hang: the other probes begin when this one has passed.
_STARTUP = {"startupProbe": {"httpGet": {"path": READY, "port": "http"}, "periodSeconds": 2, "failureThreshold": 60}}
MANIFESTS: Mapping[str, Callable[[Subject, str, str], dict[str, Any]]] = {
    "kubernetes/deployment.yaml": _deployment,
    "kubernetes/service.yaml": _service,
    "kubernetes/autoscaler.yaml": _autoscaler,
    "kserve/serving-runtime.yaml": _runtime,
    "kserve/inference-service.yaml": _inference_service,
}
