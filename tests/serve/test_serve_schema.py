"""Schemathesis walks through the server's own description: no fault, and every answer is as described."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import serving

pytestmark = pytest.mark.heavy
COMMAND = Path(sys.executable).with_name("st")
# A schema cannot say that the product of a shape is the number of values, so requests that it allows may still be refused.
LEFT_OUT = "positive_data_acceptance"


def test_what_schemathesis_makes_of_the_description_never_meets_a_fault(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    source = serving.repository(tmp_path / "models", ("tiny", "pair", "text", "flags"))
    with serving.running(source) as server:
        words = ["run", f"http://{server.http}/openapi.json", "--seed", "1", "--max-examples", "25", "--no-color"]
        words += ["--checks", "all", "--exclude-checks", LEFT_OUT, "--phases", "coverage,fuzzing"]
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout[-4000:]
        tested = re.search(r"Tested: (\d+)", done.stdout)
        cases = re.search(r"(\d+) generated", done.stdout)
        assert tested is not None
        assert cases is not None
        assert int(tested[1]) == 5 + 6 * 4
        assert int(cases[1]) > 300
        assert server.get("/v2/health/ready").status == 200
