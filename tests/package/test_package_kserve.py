"""Manifests: read by the field names of Kubernetes and KServe, and every seeded fault between them is caught."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx_ir
import pytest
import yaml

import sardonyx
import serving
from sardonyx.model import Model
from sardonyx.package import kserve
from sardonyx.package._manifests import problems

Manifests = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("kserve")
    path = serving.save("tiny", scratch / "Tiny_Model.onnx")
    report = sardonyx.package(
        path, scratch / "out", target="kserve", image="registry.example/tiny:3", storage_uri="s3://b/m"
    )
    assert report.ok
    return scratch / "out"


@pytest.fixture
def manifests(folder: Path) -> Manifests:
    return {Path(name).stem: yaml.safe_load((folder / name).read_text()) for name in kserve.MANIFESTS}


def test_what_was_asked_for_is_written(manifests: Manifests) -> None:
    assert {name: manifest["metadata"]["name"] for name, manifest in manifests.items()} == {
        "deployment": "tiny-model",
        "service": "tiny-model",
        "autoscaler": "tiny-model",
        "serving-runtime": "sardonyx-tiny-model",
        "inference-service": "tiny-model",
    }
    model = manifests["inference-service"]["spec"]["predictor"]["model"]
    assert (model["storageUri"], model["protocolVersion"]) == ("s3://b/m", "v2")
    for spec in (manifests["deployment"]["spec"]["template"]["spec"], manifests["serving-runtime"]["spec"]):
        assert spec["containers"][0]["image"] == "registry.example/tiny:3"


@pytest.mark.parametrize(("name", "label"), [("2026.v1", "m-2026-v1"), ("A_b", "a-b"), ("x" * 50, "x" * 50)])
def test_names_become_those_of_kubernetes(tmp_path: Path, name: str, label: str) -> None:
    path = serving.save("tiny", tmp_path / "tiny.onnx")
    assert sardonyx.package(path, tmp_path / "out", target="kserve", name=name).ok
    service = yaml.safe_load((tmp_path / "out" / "kubernetes" / "service.yaml").read_text())
    assert service["metadata"]["name"] == label
    assert (tmp_path / "out" / "models" / name / "1" / "model.onnx").is_file()


def test_our_server_takes_the_folder_that_is_mounted(folder: Path) -> None:
    report = sardonyx.serve(folder / "models", check=True)
    assert [(model["name"], model["version"]) for model in report["models"]] == [("Tiny_Model", "1")]


@pytest.mark.parametrize("name", ["deployment", "serving-runtime"])
def test_our_command_line_takes_the_arguments_of_the_container(
    folder: Path, manifests: Manifests, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    from sardonyx.cli import _contract, build

    spec = manifests[name]["spec"]
    words = (spec["template"]["spec"] if name == "deployment" else spec)["containers"][0]["args"]
    assert words[1] in ("/models", "/mnt/models")
    words = [str(folder / "models") if word == words[1] else word for word in words]
    assert _contract.call(build, [*words, "--check"]) == 0
    assert "ready" in capfd.readouterr().out


def test_memory_is_asked_for_by_the_size_of_the_weights(tmp_path: Path) -> None:
    """384 MiB for the server itself, and the weights three times."""
    weights = {"small": 1, "large": 1 << 20}
    found = {}
    for name, size in weights.items():
        text = f"(float[n,1] x) => (float[n,{size}] y) {{ y = MatMul(x, w) }}"
        model = Model.from_text(
            serving.HEAD + text.replace("{ y", "<float[1,1] w = {1}> { y").replace(f",{size}] y", ",1] y")
        )
        model.ir.graph.initializers["w"].const_value = onnx_ir.tensor(np.ones((1, size), np.float32))
        model.ir.graph.initializers["w"].shape = onnx_ir.Shape((1, size))
        model.ir.graph.outputs[0].shape = onnx_ir.Shape(("n", size))
        sardonyx.package(model, tmp_path / name, target="kserve")
        deployment = yaml.safe_load((tmp_path / name / "kubernetes" / "deployment.yaml").read_text())
        found[name] = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert found["small"]["requests"]["memory"] == "385Mi"
    assert found["large"] == {"requests": {"cpu": "1", "memory": "396Mi"}, "limits": {"cpu": "2", "memory": "792Mi"}}


def container(manifests: Manifests) -> Any:
    return manifests["deployment"]["spec"]["template"]["spec"]["containers"][0]


def runtime(manifests: Manifests) -> Any:
    return manifests["serving-runtime"]["spec"]["containers"][0]


def model(manifests: Manifests) -> Any:
    return manifests["inference-service"]["spec"]["predictor"]["model"]


FAULTS: dict[str, tuple[Callable[[Manifests], Any], str]] = {
    "a name": (lambda m: m["service"]["metadata"].update(name="Not A Name"), "no name for Kubernetes"),
    "the deployment's selector": (
        lambda m: m["deployment"]["spec"]["selector"]["matchLabels"].update(tier="other"),
        "does not choose its own pods",
    ),
    "the service's selector": (lambda m: m["service"]["spec"]["selector"].update(tier="x"), "deployment's pods"),
    "the service's port": (lambda m: m["service"]["spec"]["ports"][0].update(targetPort="web"), "no container has"),
    "a container's port": (
        lambda m: container(m)["ports"][0].update(containerPort=80),
        "nothing listens on the port 80",
    ),
    "a probe's path": (lambda m: runtime(m)["livenessProbe"]["httpGet"].update(path="/healthz"), "health is at"),
    "a probe's port": (lambda m: container(m)["startupProbe"]["httpGet"].update(port="web"), "asks the port web"),
    "no probe": (lambda m: runtime(m).pop("readinessProbe"), "a part is missing"),
    "root": (lambda m: container(m)["securityContext"].update(runAsNonRoot=False), "runAsNonRoot is not True"),
    "capabilities": (lambda m: runtime(m)["securityContext"]["capabilities"].update(drop=[]), "keeps capabilities"),
    "a volume": (lambda m: m["serving-runtime"]["spec"].update(volumes=[]), "it mounts"),
    "memory": (lambda m: container(m)["resources"]["limits"].update(memory="1Mi"), "more memory than it may have"),
    "the autoscaler's target": (
        lambda m: m["autoscaler"]["spec"]["scaleTargetRef"].update(name="another"),
        "it scales",
    ),
    "the autoscaler's range": (lambda m: m["autoscaler"]["spec"].update(minReplicas=9), "above maxReplicas"),
    "replicas": (lambda m: m["deployment"]["spec"].update(replicas=3), "undo what the autoscaler did"),
    "the runtime's name": (lambda m: model(m).update(runtime="another"), "no ServingRuntime another"),
    "the format": (lambda m: model(m)["modelFormat"].update(name="tensorflow"), "does not take"),
    "the protocol": (lambda m: model(m).update(protocolVersion="v1"), "does not speak v1"),
    "the container's name": (lambda m: runtime(m).update(name="server"), "kserve-container"),
    "another image": (lambda m: runtime(m).update(image="other:1"), "another image"),
    "nothing at all": (lambda m: m.update(deployment=None), "a part is missing"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_caught(manifests: Manifests, fault: str) -> None:
    assert list(problems(manifests)) == []
    seed, words = FAULTS[fault]
    faulty = copy.deepcopy(manifests)
    seed(faulty)
    assert any(words in message for _, message in problems(faulty))


def test_an_unreadable_manifest_is_caught(folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "copy")
    assert kserve.check(tmp_path / "copy") == []
    (tmp_path / "copy" / "kubernetes" / "service.yaml").write_text("a: [")
    (tmp_path / "copy" / "kserve" / "serving-runtime.yaml").unlink()
    assert [finding.where for finding in kserve.check(tmp_path / "copy")] == [
        "kubernetes/service.yaml", "kserve/serving-runtime.yaml",
    ]  # fmt: skip


# The field names of Kubernetes and KServe, from their own Python packages.


@pytest.fixture(scope="module")
def schemas() -> Iterator[Callable[[str], Any]]:
    """A class by its name. KServe's are read without its package's own imports, which want a server's worth of libraries."""
    kubernetes = pytest.importorskip("kubernetes.client")
    spec = importlib.util.find_spec("kserve")
    if spec is None:
        pytest.skip("kserve is not installed; `make test` installs it")
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "kserve"}
    for name in before:
        del sys.modules[name]
    shell = ModuleType("kserve")
    shell.__path__ = list(spec.submodule_search_locations or ())
    sys.modules["kserve"] = shell

    def find(name: str) -> Any:
        if hasattr(kubernetes, name):
            return getattr(kubernetes, name)
        file = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        return getattr(importlib.import_module(f"kserve.models.{file}"), name)

    # The models' own package imports all of them, and with them nothing heavy.
    models = ModuleType("kserve.models")
    models.__path__ = [str(Path(path) / "models") for path in shell.__path__]
    sys.modules["kserve.models"] = models
    yield find
    for name in [name for name in sys.modules if name.partition(".")[0] == "kserve"]:
        del sys.modules[name]
    sys.modules.update(before)


def strangers(value: Any, kind: str, find: Callable[[str], Any], where: str = "") -> Iterator[str]:
    """Every field that the schema does not have, and every value of another type."""
    plain = {"str": str, "bool": bool, "int": int, "float": (int, float), "object": object, "datetime": str}
    if kind in plain:
        if not isinstance(value, plain[kind]):
            yield f"{where} is no {kind}"
    elif match := re.fullmatch(r"[lL]ist\[(.+)\]", kind):
        for index, item in enumerate(value):
            yield from strangers(item, match[1], find, f"{where}[{index}]")
    elif match := re.fullmatch(r"[dD]ict[(\[]str, (.+)[)\]]", kind):
        for key, item in value.items():
            yield from strangers(item, match[1], find, f"{where}.{key}")
    else:
        schema = find(kind)
        names = {json: name for name, json in schema.attribute_map.items()}
        for key, item in value.items():
            if key not in names:
                yield f"{where}.{key} is unknown to {kind}"
            else:
                yield from strangers(item, schema.openapi_types[names[key]], find, f"{where}.{key}")


KINDS = {
    "deployment": "V1Deployment",
    "service": "V1Service",
    "autoscaler": "V2HorizontalPodAutoscaler",
    "serving-runtime": "V1alpha1ServingRuntime",
    "inference-service": "V1beta1InferenceService",
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", KINDS)
def test_every_field_is_one_of_the_schema(manifests: Manifests, schemas: Callable[[str], Any], name: str) -> None:
    assert list(strangers(manifests[name], KINDS[name], schemas)) == []


@pytest.mark.heavy
def test_a_field_that_the_schema_does_not_have_is_noticed(manifests: Manifests, schemas: Callable[[str], Any]) -> None:
    model(manifests)["storageURI"] = "s3://x"
    container(manifests)["livenessProbe"]["periodSeconds"] = "ten"
    assert list(strangers(manifests["inference-service"], "V1beta1InferenceService", schemas)) == [
        ".spec.predictor.model.storageURI is unknown to V1beta1ModelSpec"
    ]
    assert list(strangers(manifests["deployment"], "V1Deployment", schemas)) == [
        ".spec.template.spec.containers[0].livenessProbe.periodSeconds is no int"
    ]


@pytest.mark.heavy
def test_the_python_client_takes_the_manifests_as_they_are(manifests: Manifests) -> None:
    client = pytest.importorskip("kubernetes.client")

    api = client.ApiClient()
    for name in ("deployment", "service", "autoscaler"):
        loaded = api.deserialize(json.dumps(manifests[name]), KINDS[name], "application/json")
        assert api.sanitize_for_serialization(loaded) == manifests[name]
