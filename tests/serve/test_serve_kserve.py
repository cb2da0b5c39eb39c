"""KServe's own clients run their calls unchanged, over REST and gRPC."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import serving
from serving import Running

# `make test` installs it; `make check` must be able to look at this file without.
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(importlib.util.find_spec("kserve") is None, reason="kserve is not installed"),
]
CALLS = Path(__file__).parent.parent / "kserve_client.py"
X = np.arange(12, dtype=np.float32).reshape(3, 4)
Y = (X @ np.arange(1, 13, dtype=np.float32).reshape(4, 3)).tolist()


def calls(server: Running, *token: str) -> Any:
    words = [sys.executable, CALLS, server.http, server.grpc, *token]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_call_comes_back_right(server: Running) -> None:
    found = calls(server)
    over_rest, over_grpc = found["rest"], found["grpc"]
    assert over_rest["live"]
    assert over_rest["ready"]
    assert over_rest["models"] == [True, False]
    assert over_rest["binary"] == over_rest["json"] == {"id": "seven", "y": Y}
    assert over_rest["words"] == {"id": "seven", "same": [["one", "zwei", "très", ""]]}
    assert over_rest["bad"] == 400
    assert over_grpc["live"]
    assert over_grpc["ready"]
    assert over_grpc["raw"] == over_grpc["listed"] == {"id": "seven", "sum": [[4.5, 6]], "twice": [[6, 8]]}
    code, details = over_grpc["bad"]
    assert code == "INVALID_ARGUMENT"
    assert "the model takes" in details


@pytest.mark.rest
def test_a_token_in_the_headers_opens_the_server(models: Path) -> None:
    with serving.running(models, grpc_port=0, tokens=("sesame",)) as server:
        shut, opened = calls(server, "wrong"), calls(server, "sesame")
    assert shut["rest"]["binary"] == 401
    assert shut["grpc"]["raw"][0] == "UNAUTHENTICATED"
    assert opened["rest"]["binary"]["y"] == Y
    assert opened["grpc"]["raw"]["twice"] == [[6, 8]]
