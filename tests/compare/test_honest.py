"""Rewrites that change nothing but rounding: none is called a mismatch."""

from __future__ import annotations

import warnings

import pytest

import sardonyx
from honest import REWRITES
from subjects import SUBJECTS

# Large models get the rewrites that round most differently.
LARGE = {
    "layout": ("onnxruntime, extended", "normalisation folded", "division as product", "tensors renamed"),
    "pitch": ("onnxruntime, extended", "a newer opset", "channels in another order", "bias apart"),
}
# How many rewrites apply to each subject, so that the number of cases is known and cannot shrink unseen.
CASES = {
    "encoder": 14, "convnet": 17, "faces-p": 12, "faces-r": 13, "faces-o": 13, "reader-cls": 19, "reader-det": 18,
    "reader-rec": 20, "layout": 4, "files": 13, "pitch": 4, "voice": 9, "voice-half": 16, "voice-openvino": 16,
    "voice-sequence": 16, "voice-torch": 10, "words": 13,
}  # fmt: skip


def test_there_are_two_hundred_honest_rewrites():
    assert set(CASES) == set(SUBJECTS)
    assert sum(CASES.values()) >= 200


@pytest.mark.heavy
@pytest.mark.parametrize("name", SUBJECTS)
def test_honest_rewrites_are_equal_or_rounding(name: str):
    subject = SUBJECTS[name]
    verdicts = {}
    for rewrite in LARGE.get(name, REWRITES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the optimizers
            rewritten = REWRITES[rewrite](subject.load())
        if rewritten is not None:
            verdicts[rewrite] = sardonyx.compare(subject.load(), rewritten, data=subject.data(), localize=False).verdict
    assert [rewrite for rewrite, verdict in verdicts.items() if verdict == "mismatch"] == []
    assert len(verdicts) == CASES[name]
