from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import serving
from serving import Running


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return serving.repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Running]:
    with serving.running(models, grpc_port=0) as running:
        yield running
