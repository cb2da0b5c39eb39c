"""Rewrites that change nothing but rounding: none is called a mismatch."""

from __future__ import annotations

import warnings

import onnx
import pytest

import sardonyx
from halves import split
from honest import REWRITES
from subjects import SUBJECTS

# Large models get the rewrites that round most differently.
LARGE = {
    "layout": ("onnxruntime, extended", "normalisation folded", "division as product", "tensors renamed"),
    "pitch": ("onnxruntime, extended", "a newer opset", "channels in another order", "bias apart"),
}
SMALLEST, REAL = "encoder", ("faces-p", "files")
# How many rewrites apply to each subject, so that the number of cases is known and cannot shrink unseen.
CASES = {
    "encoder": 14, "convnet": 17, "faces-p": 12, "faces-r": 13, "faces-o": 13, "reader-cls": 19, "reader-det": 18,
    "reader-rec": 20, "layout": 4, "files": 13, "pitch": 4, "voice": 9, "voice-half": 16, "voice-openvino": 16,
    "voice-sequence": 16, "voice-torch": 10, "words": 13,
}  # fmt: skip


def test_there_are_two_hundred_honest_rewrites():
    assert set(CASES) == set(SUBJECTS)
    assert sum(CASES.values()) >= 200


def rewrites(name: str) -> tuple[str, ...]:
    return LARGE.get(name, tuple(REWRITES))


def rewritten(name: str, rewrite: str) -> onnx.ModelProto | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the optimizers
        return REWRITES[rewrite](SUBJECTS[name].load())


@pytest.mark.rest
@pytest.mark.heavy
@pytest.mark.parametrize("name", SUBJECTS)
def test_as_many_rewrites_apply_as_are_counted(name: str):
    assert sum(rewritten(name, rewrite) is not None for rewrite in rewrites(name)) == CASES[name]


PAIRS = [(name, rewrite) for name in SUBJECTS for rewrite in rewrites(name)]
IDS = [f"{name}: {rewrite}" for name, rewrite in PAIRS]
# Every rewrite on the smallest model, and on two real ones a rewrite that rounds differently.
FIRST = [
    id
    for (name, rewrite), id in zip(PAIRS, IDS, strict=True)
    if name == SMALLEST or (name in REAL and rewrite == "onnxruntime, extended")
]


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "rewrite"), split(PAIRS, *FIRST, ids=IDS))
def test_an_honest_rewrite_is_equal_or_rounding(name: str, rewrite: str):
    candidate = rewritten(name, rewrite)
    if candidate is not None:  # else there is nothing to rewrite, which is counted above
        subject = SUBJECTS[name]
        assert sardonyx.compare(subject.load(), candidate, data=subject.data(), localize=False).verdict != "mismatch"
