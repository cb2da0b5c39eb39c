"""A Ray Serve application: Ray's own schema takes the configuration, and every seeded fault is caught."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import yaml

import sardonyx
import serving
from sardonyx import registry
from sardonyx.package import ray
from sardonyx.run.session import Session
from sardonyx.serve import ray_serve
from sardonyx.serve.client import Client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    report = sardonyx.package(serving.save("tiny", tmp_path / "tiny.onnx"), tmp_path / "out", target="ray")
    assert report.ok
    return tmp_path / "out"


def test_the_configuration_names_the_application(folder: Path) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["http_options"] == {"host": "127.0.0.1", "port": 8000}
    (application,) = config["applications"]
    assert (application["name"], application["import_path"], application["route_prefix"]) == ("tiny", "app:app", "/")


FAULTS = {
    "another module": ("config.yaml", "app:app", "main:app", "no main.py"),
    "another variable": ("config.yaml", "app:app", "app:server", "makes no server"),
    "no replicas": ("config.yaml", "num_replicas: 1", "num_replicas: none", "num_replicas is none"),
    "no applications": ("config.yaml", "applications:", "apps:", "unreadable"),
    "no YAML": ("config.yaml", "applications:", "[", "unreadable"),
    "no Python": ("app.py", "app =", "app ==(", "not Python"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_caught(folder: Path, fault: str) -> None:
    assert ray.check(folder) == []
    name, old, new, words = FAULTS[fault]
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    (finding,) = ray.check(folder)
    assert words in finding.message


def test_a_folder_without_its_model_is_caught(folder: Path) -> None:
    (folder / "models" / "tiny" / "1" / "model.onnx").unlink()
    assert [finding.where for finding in ray.check(folder)] == ["models"]


OPEN = """
import yaml
import app
from ray.serve import Application
from ray.serve.schema import ServeDeploySchema
config = ServeDeploySchema.model_validate(yaml.safe_load(open("config.yaml")))
assert isinstance(app.app, Application)
deployment = app.app._bound_deployment
assert [each.name for each in config.applications[0].deployments] == [deployment.name]
print(deployment.ray_actor_options["num_cpus"])
"""


@pytest.mark.heavy
def test_ray_opens_the_application_and_its_schema_takes_the_configuration(folder: Path) -> None:
    if not registry.installed("ray"):
        pytest.skip("ray is not installed; `make test` installs it")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OPEN],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"]


@pytest.mark.heavy
def test_rays_own_command_serves_the_folder(folder: Path, tmp_path: Path) -> None:
    if not registry.installed("ray"):
        pytest.skip("ray is not installed; `make test` installs it")
    port, *others = ray_serve.spare_ports(1 + len(ray_serve.PORTS))
    own = dict(zip(ray_serve.PORTS, map(str, others), strict=True))
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["http_options"]["port"] = port
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    variables = {"PYTHONWARNINGS": "ignore", **dict(word.split("=") for word in ray.FLAGS.split())}
    assert ray_serve.SETTINGS.items() <= variables.items()
    variables |= {"RAY_ADDRESS": "local", **own}  # and no cluster or proxy that another test has started
    said = tmp_path / "said"
    with said.open("w") as output, subprocess.Popen(
        [Path(sys.executable).with_name("serve"), "run", "config.yaml"],
        cwd=folder, env={**os.environ, **variables}, stdout=output, stderr=output,
    ) as server:  # fmt: skip
        timer = threading.Timer(600, server.kill)  # so that a hang is a failure and not the end of the suite
        timer.start()
        try:
            x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
            with Client(f"http://127.0.0.1:{port}") as client:
                client.wait(500)
                answer = client.infer("tiny", {"x": x})["y"]
            np.testing.assert_array_equal(answer, Session(tmp_path / "tiny.onnx")({"x": x})["y"])
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()
            timer.cancel()
    assert "Submitted deploy config successfully" in said.read_text()
