"""A description of the server's addresses in OpenAPI's words, with a schema for each model's inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sardonyx
from sardonyx.serve.served import Served
from sardonyx.signature import TensorSpec

Schema = dict[str, Any]
_ERROR: Schema = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
# Status, and what it means, of everything that may be refused.
_REFUSALS = {
    "400": "the request is wrong; the message names the input", "401": "the token is missing or wrong",
    "403": "the token is not for this model", "404": "no such model", "413": "the body is too large",
    "415": "the content encoding is unknown", "429": "too many requests are waiting", "503": "the server is stopping",
    "504": "the request waited too long",
}  # fmt: skip
# Path, and what it gives, of what can be asked without a body.
_FACTS = {
    "/v2": "the server's name, version and extensions",
    "/v2/health/live": "whether the server runs",
    "/v2/health/ready": "whether the server takes requests",
    "/v2/models": "the models that are loaded",
    "/v2/models/stats": "what every model has done",
}
_MODEL_FACTS = {
    "": "inputs and outputs",
    "/ready": "whether it takes requests",
    "/stats": "what it has done",
    "/config": "its configuration, as Triton writes it",
}


def describe(models: Iterable[Served]) -> Schema:
    """The whole document."""
    paths = {path: {"get": _operation(words)} for path, words in _FACTS.items()}
    for served in {served.name: served for served in models}.values():
        start = f"/v2/models/{served.name}"
        paths |= {start + end: {"get": _operation(words)} for end, words in _MODEL_FACTS.items()}
        paths[f"{start}/infer"] = {
            "post": _operation("the Open Inference Protocol", _infer_request(served), _INFER_ANSWER)
        }
        taken, given = _named(served.signature.inputs), _named(served.signature.outputs, answered=True)
        paths[f"/predict/{served.name}"] = {"post": _operation("a prediction in plain JSON", taken, given)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sardonyx", "version": sardonyx.__version__},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


_INFER_ANSWER: Schema = {
    "type": "object",
    "required": ["model_name", "outputs"],
    "properties": {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "outputs": {"type": "array", "items": {"type": "object", "required": ["name", "datatype", "shape"]}},
    },
}


def _operation(words: str, taken: Schema | None = None, given: Schema | None = None) -> Schema:
    answers = {"200": {"description": words, "content": _json(given or {"type": "object"})}}
    answers |= {status: {"description": why, "content": _json(_ERROR)} for status, why in _REFUSALS.items()}
    body = {} if taken is None else {"requestBody": {"required": True, "content": _json(taken)}}
    return {"summary": words, "responses": answers, **body}


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _infer_request(served: Served) -> Schema:
    tensors = [
        {
            "type": "object",
            "required": ["name", "datatype", "shape", "data"],
            "properties": {
                "name": {"const": spec.name},
                "datatype": {"const": served.terms.datatypes[spec.name]},
                "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                "data": {"type": "array"},
            },
        }
        for spec in served.signature.inputs
    ]
    inputs = {"type": "array", "prefixItems": tensors, "minItems": len(tensors), "maxItems": len(tensors)}
    properties = {"id": {"type": "string"}, "inputs": inputs, "parameters": {"type": "object"}}
    return {"type": "object", "required": ["inputs"], "properties": properties}


def _named(specs: Iterable[TensorSpec], *, answered: bool = False) -> Schema:
    schemas = {spec.name: _nested(spec, answered) for spec in specs}
    return {"type": "object", "required": list(schemas), "properties": schemas}


def _nested(spec: TensorSpec, answered: bool) -> Schema:
    """A list in a list for every dimension, of the size that the model fixes."""
    kind = "string" if spec.dtype == "string" else "boolean" if spec.dtype == "bool" else "number"
    schema: Schema = {"type": "integer" if "int" in spec.dtype else kind}
    if answered and schema["type"] == "number":
        schema = {"type": ["number", "null"]}  # JSON has no infinity and no NaN
    row = schema
    for size in reversed(spec.shape or ()):
        row, schema = schema, {"type": "array", "items": schema}
        if isinstance(size, int):
            schema |= {"minItems": size, "maxItems": size}
    if not answered and spec.shape and not isinstance(spec.shape[0], int):
        return {"anyOf": [schema, row]}  # of one row, the outer brackets may be left out
    return schema
