"""Source kinds by routes, against docs/conversions.md: one row in four. `make conversions` runs all and writes the page."""

import json
import os
from pathlib import Path

import pytest

import sardonyx
from conversions import TABLE, cases, committed, committed_traps, page, row
from halves import split

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]

CASES = list(cases())
EXPECTED = committed()
SHARE = 4
# A folder for the verdicts, when the page is being written.
WRITE = os.environ.get("SARDONYX_WRITE_CONVERSIONS")
# On these the original disagrees with itself by more than an export does, so a verdict may go either way.
RESTLESS = {"nmp", "nmp.tflite", "emotion_model_quantized.tflite"}
CHOSEN = CASES if WRITE else [case for case in CASES if case[1] not in RESTLESS][::SHARE]
IDS = [f"{group}-{name}" for group, name, _ in CHOSEN]
# One of each kind of source that is quick to convert runs in `make test`.
QUICK = ("PyTorch, traps", "scikit-learn", "boosting")
FIRST = {group: name for (group, _, _), name in reversed([*zip(CHOSEN, IDS, strict=True)]) if group in QUICK}.values()


@pytest.mark.parametrize(("group", "name", "arguments"), split(CHOSEN, *FIRST, ids=IDS))
def test_verdicts_are_those_of_the_page(group, name, arguments, tmp_path):
    source, options = arguments()
    report = sardonyx.convert(source, tmp_path / "m.onnx", **options)
    found = row(report["candidates"])
    if WRITE:
        key = f"{CASES.index((group, name, arguments)):04}.json"
        (Path(WRITE) / key).write_text(json.dumps([group, name, found, [c["reason"] for c in report["candidates"]]]))
        return
    assert found == EXPECTED.get((group, name)), [c["reason"] for c in report["candidates"]]
    assert (tmp_path / "m.onnx").exists() == report.ok


def test_the_page_lists_every_case_and_no_other():
    if not WRITE:
        assert list(EXPECTED) == [(group, name) for group, name, _ in CASES]
        assert TABLE.read_text() == page(EXPECTED, committed_traps())
