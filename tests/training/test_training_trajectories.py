"""The same start and the same batches give the losses that PyTorch gives, for a hundred steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from halves import split
from training_walks import STEPS, SUBJECTS, sardonyx_walk, walked

pytestmark = pytest.mark.heavy


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", split(SUBJECTS, "dense"))
def test_a_hundred_losses_are_pytorchs(tmp_path: Path, name: str) -> None:
    path = walked(name, again=1 if name == "mobilenet-v2" else 2)  # it is the slowest by far
    ours = sardonyx_walk(path, tmp_path)
    assert len(ours.losses) == STEPS
    away, allowed = abs(ours.losses - path.walks[0].losses), path.allowed()
    assert not path.strays(ours), f"step {path.strays(ours)[0]}: {away.max()} of {allowed.max()}"
    assert not path.wrong_statistics(ours)
    # Otherwise the walk would say nothing: it learns, and it begins where a wrong formula shows.
    assert ours.losses[-10:].mean() < 0.97 * ours.losses[:10].mean()
    assert allowed[0] < 1e-4


@pytest.mark.rest
@pytest.mark.parametrize(
    "fault", [{"momentum": 0.899}, {"rate": 1.001}, {"momentum": 0.0}], ids=["momentum", "rate", "no momentum"]
)
@pytest.mark.parametrize("name", ["dense", "lstm"])
def test_a_wrong_optimizer_is_caught(tmp_path: Path, name: str, fault: dict[str, float]) -> None:
    path = walked(name, again=1)
    assert path.strays(sardonyx_walk(path, tmp_path, **fault))


@pytest.mark.rest
def test_wrong_statistics_of_batchnorm_are_caught(tmp_path: Path) -> None:
    path = walked("resnet-20", again=1)
    biased = sardonyx_walk(path, tmp_path / "biased", batch_norm="onnx", steps=4)
    assert len(path.wrong_statistics(biased)) == sum("var" in name for name in path.walks[0].statistics)
    assert not path.strays(biased), "the losses of training do not depend on the running statistics"
    frozen = sardonyx_walk(path, tmp_path / "frozen", batch_norm="frozen", steps=4)
    assert path.strays(frozen)[0] == 0
    assert len(path.wrong_statistics(frozen)) == len(path.walks[0].statistics)


def test_a_loss_that_is_no_number_strays(tmp_path: Path) -> None:
    path = walked("dense", again=1)
    ours = sardonyx_walk(path, tmp_path, steps=3)
    ours.losses[1] = np.nan
    assert path.strays(ours) == [1]
