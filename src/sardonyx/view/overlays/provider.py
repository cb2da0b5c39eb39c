"""Which execution provider of onnxruntime takes each node."""

from __future__ import annotations

from typing import Any

import onnxruntime as ort

from sardonyx.bench.origins import name_nodes
from sardonyx.errors import RuntimeRefused
from sardonyx.files import temporary_folder
from sardonyx.model import Model
from sardonyx.run.session import Settings, options, plain, provider_name
from sardonyx.view.overlay import Overlay, Subject

_RECORD = "session.record_ep_graph_assignment_info"


def overlay(subject: Subject) -> Overlay:
    """A word for every node, as a session that changes nothing about the graph assigns them."""
    named = Model(subject.model.ir.clone())
    name_nodes(named.ir)
    places = {node.name: index for index, node in enumerate(named.ir.graph.all_nodes())}
    values: dict[int, float | str] = {}
    for name, provider in _assigned(named, subject).items():
        if name in places:
            values[places[name]] = provider.removesuffix("ExecutionProvider")
    note = f"as onnxruntime assigns the nodes when asked for {subject.provider}"
    return Overlay("provider", "Provider", "word", values, note=note)


def _assigned(named: Model, subject: Subject) -> dict[str, str]:
    chosen = options(Settings(provider=subject.provider, threads=1, optimize=False))
    chosen.add_session_config_entry(_RECORD, "1")
    providers = list(dict.fromkeys((provider_name(subject.provider), "CPUExecutionProvider")))
    with temporary_folder() as scratch:
        path = named.save(scratch / "named.onnx")
        try:
            session = ort.InferenceSession(str(path), chosen, providers=providers)
            parts: list[Any] = session.get_provider_graph_assignment_info()
        except Exception as error:
            raise RuntimeRefused(
                f"onnxruntime does not load the model: {plain(error)}", hint="leave --overlay provider out"
            ) from error
        return {node.name: part.ep_name for part in parts for node in part.get_nodes()}
