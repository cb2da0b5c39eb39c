"""A Ray Serve application: app.py, its configuration, and the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sardonyx.package._subject import Subject, Wishes
from sardonyx.report import Finding

REQUIRES = "package"
TAKES: set[str] = set()
# The settings of serve/ray_serve.py, and no reports of usage.
FLAGS = (
    "RAY_SERVE_ENABLE_HA_PROXY=1 RAY_SERVE_THROUGHPUT_OPTIMIZED=1 RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S=60"
    " RAY_USAGE_STATS_ENABLED=0"
)
STEPS = (
    "pip install 'sardonyx[ray,serve]' on every node",
    f"cd {{folder}} && {FLAGS} serve run config.yaml",
    "curl http://127.0.0.1:8000/v2/models/{name}",
)
CODES = {"ray-application": "app.py or config.yaml is unreadable, or one does not fit the other."}
APP, CONFIG, MODELS = "app.py", "config.yaml", "models"
PORT = 8000
_APP = '''"""{name} over the Open Inference Protocol, on Ray Serve. config.yaml says how often and where."""

from pathlib import Path

from sardonyx.serve.ray_serve import application

app = application(Path(__file__).parent / "{models}", threads=1)
'''
_README = """# {name} on Ray Serve

Every node needs `pip install 'sardonyx[ray,serve]'` and this folder under the same path. On one machine:

    {flags} serve run config.yaml
    curl http://127.0.0.1:8000/v2/models/{name}

On a cluster, give these variables to `ray start` on every node, set `host` in config.yaml to 0.0.0.0, and use
`serve deploy config.yaml`. `num_replicas` in config.yaml says how many replicas there are. For more threads in each, raise
`threads` in app.py and `num_cpus` in config.yaml together.
"""


def package(subject: Subject, folder: Path, wishes: Wishes) -> list[Finding]:  # noqa: ARG001  all are called alike
    import yaml

    subject.must_be_servable()
    subject.write(folder / MODELS / subject.name / "1")
    (folder / APP).write_text(_APP.format(name=subject.name, models=MODELS))
    (folder / CONFIG).write_text(yaml.safe_dump(_config(subject), sort_keys=False))
    (folder / "README.md").write_text(_README.format(name=subject.name, flags=FLAGS))
    return []


def check(folder: Path) -> list[Finding]:
    """Reads both files again: the configuration names the application that app.py makes, of a folder that holds a model."""
    return [
        Finding("error", "ray-application", where, message, "package the model again")
        for where, message in _problems(folder)
    ]


def _config(subject: Subject) -> dict[str, Any]:
    deployment = {
        "name": "sardonyx", "num_replicas": 1, "max_ongoing_requests": 256, "ray_actor_options": {"num_cpus": 1},
    }  # fmt: skip
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "127.0.0.1", "port": PORT},
        "applications": [
            {"name": subject.label, "route_prefix": "/", "import_path": "app:app", "deployments": [deployment]}
        ],
    }


def _problems(folder: Path) -> Iterator[tuple[str, str]]:
    import yaml

    try:
        config = yaml.safe_load((folder / CONFIG).read_text())
        application = config["applications"][0]
        module, _, variable = application["import_path"].partition(":")
        replicas = application["deployments"][0]["num_replicas"]
    except (OSError, yaml.YAMLError, KeyError, TypeError, IndexError, AttributeError) as error:
        yield CONFIG, f"unreadable: {error}"
        return
    if not isinstance(replicas, int) or replicas < 1:
        yield CONFIG, f"num_replicas is {replicas}"
    path = folder / f"{module}.py"
    if not path.is_file():
        yield CONFIG, f"there is no {path.name} for the import_path {application['import_path']}"
        return
    try:
        tree = ast.parse(path.read_text())
    except SyntaxError as error:
        yield path.name, f"it is not Python: {error}"
        return
    targets = {
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name)
    }
    if variable not in targets:
        yield path.name, f"it makes no {variable}"
    if not any(folder.glob(f"{MODELS}/*/*/model.onnx")):
        yield MODELS, "it holds no model"
