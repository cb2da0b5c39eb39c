"""Stages are tuned by a file and by the call; a wrong word is met with the right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sardonyx import progress
from sardonyx.bundle.settings import gather, keywords_of, parsed
from sardonyx.errors import NotFound, Untrusted, UsageError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sardonyx.toml"
    path.write_text('skip = ["bench"]\n[convert]\nopset = 17\n[quantize]\nbudget = "2%"\ntime = 5\n')
    return path


def test_the_call_speaks_over_the_file(file: Path) -> None:
    found = gather(file, {"quantize": {"time": 9}}, ["check"], {"route": "trace", "weights": None, "inputs": []})
    assert found.of("quantize") == {"budget": "2%", "time": 9}
    assert found.of("convert") == {"opset": 17, "route": "trace"}
    assert found.skip == ("bench", "check")


def test_a_file_in_this_folder_is_taken_without_being_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert gather(None, {}, (), {}).of("convert") == {"opset": 17}
    monkeypatch.chdir("/")
    assert gather(None, {}, (), {}).of("convert") == {}


RUNS = {
    "[convert]\ntrust = true": ("convert.trust", "--trust"),
    "[convert]\npython = '/tmp/evil'": ("convert.python", "--python"),
    "[convert]\nweights = 'w.pkl'": ("convert.weights", "--weights"),
    "[quantize]\nmetric = 'evil:metric'": ("quantize.metric", "--set quantize.metric="),
    "[quantize]\nmetric = 'evil.py:metric'": ("quantize.metric", "--config"),
    "[convert]\ndata = 'evil:rows'": ("convert.data", "--set convert.data="),
    "[golden]\ndata = 'a/b.py:rows'": ("golden.data", "--set golden.data="),
    "[bench]\nsizes = {a = ['os.path:join']}": ("bench.sizes", "--set bench.sizes="),
}


@pytest.mark.parametrize("text", RUNS)
def test_a_file_that_nobody_named_runs_no_program(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may be a download. The same file is taken where it is named on the command line."""
    key, option = RUNS[text]
    (tmp_path / "sardonyx.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Untrusted, match=r"sardonyx\.toml") as caught:
        gather(None, {}, (), {})
    assert key in caught.value.message
    assert option in caught.value.hint
    assert "--config sardonyx.toml" in caught.value.hint
    stage, name = key.split(".")
    assert gather("sardonyx.toml", {}, (), {}).of(stage)[name]


def test_the_file_that_was_read_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Display:
        start = advance = finish = staticmethod(lambda *_: 0)

        def say(self, text: str) -> None:
            said.append(text)

    monkeypatch.chdir(file.parent)
    with progress.shown_on(Display()):
        found = gather(None, {}, (), {})
    assert (found.config, said) == ("sardonyx.toml", ["settings of sardonyx.toml"])
    assert gather(file, {}, (), {}).config == str(file)
    monkeypatch.chdir("/")
    assert gather(None, {}, (), {}).config is None


def test_a_file_without_an_end_is_not_read_to_it(tmp_path: Path) -> None:
    with (tmp_path / "s.toml").open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(UsageError, match="more than"):
        gather(tmp_path / "s.toml", {}, (), {})


WRONG = {
    "[quantise]\ntime = 3": ("no stage 'quantise'", "did you mean 'quantize'?"),
    '[quantize]\nbudgets = "1%"': ("no keyword 'budgets'", "did you mean 'budget'?"),
    "[optimize]\noutput = 'elsewhere'": ("no keyword 'output'", "there are"),
    "quantize = 3": ("quantize is not a table", "[quantize]"),
    'skip = "quantize"': ("not a list", "skip = ["),
    'skip = ["convert"]': ("'convert' cannot be skipped", "there are"),
    "[quantize": ("cannot be read", "TOML"),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_word_is_named_with_the_near_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    message, hint = WRONG[text]
    with pytest.raises(UsageError, match=r"s\.toml|skipped") as caught:
        gather(tmp_path / "s.toml", {}, (), {})
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"gone\.toml"):
        gather(tmp_path / "gone.toml", {}, (), {})


def test_words_of_the_command_line_are_read_as_toml_where_they_are() -> None:
    words = ["quantize.budget=2%", "quantize.time=3", "bench.cold=false", "bench.batch=[1,8]", 'check.ort="1.24"']
    assert parsed(words) == {
        "quantize": {"budget": "2%", "time": 3},
        "bench": {"cold": False, "batch": [1, 8]},
        "check": {"ort": "1.24"},
    }
    for wrong in ("quantize", "quantize=3", "quantize.=3", ".time=3=4"):
        with pytest.raises(UsageError):
            gather(None, parsed([wrong]), (), {})


def test_a_stage_takes_the_keywords_of_its_verb() -> None:
    assert {"metric", "budget", "scheme", "data", "time"} <= set(keywords_of("quantize"))
    assert {"cases", "batch"} <= set(keywords_of("golden"))
    assert not {"model", "output", "variants"} & {
        name for stage in ("bench", "quantize") for name in keywords_of(stage)
    }
