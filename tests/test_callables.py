from pathlib import Path

import pytest

from sardonyx import callables
from sardonyx.errors import NotFound, SourceFailed


@pytest.mark.parametrize(
    ("text", "expected"),
    [("data.py:batches", True), ("a/b c/data.py:batches", True), ("package.module:batches", True), ("m:f", True),
     ("C:/data", False), ("data.npz", False), ("data.py", False), ("a-b:f", False), ("m:f.g", False)],
)  # fmt: skip
def test_only_a_module_or_a_python_file_with_a_name_is_a_reference(text: str, expected: bool) -> None:
    assert callables.is_reference(text) is expected


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_data.py").write_text("VALUE = 3")
    (tmp_path / "data.py").write_text("from neighbour_of_data import VALUE\ndef give(): return VALUE")
    assert callables.load(f"{tmp_path}/data.py:give")() == 3


def test_a_module_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "found_here.py").write_text("def give(): return 5")
    assert callables.load("found_here:give")() == 5


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("def give(): pass\nnumber = 1")
    with pytest.raises(NotFound, match="no function 'take'") as caught:
        callables.load(f"{tmp_path}/data.py:take")
    assert "give" in caught.value.hint
    with pytest.raises(NotFound, match="no function 'number'"):
        callables.load(f"{tmp_path}/data.py:number")
    with pytest.raises(NotFound, match="does not exist"):
        callables.load(f"{tmp_path}/nowhere.py:give")
    with pytest.raises(NotFound, match=r"no module no_such\.module"):
        callables.load("no_such.module:give")


def test_code_that_raises_is_blamed_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("\n\nimport no_such_module_at_all")
    with pytest.raises(SourceFailed, match=r"ModuleNotFoundError.*no_such_module_at_all.*\(data\.py:3\)"):
        callables.load(f"{tmp_path}/data.py:give")
    (tmp_path / "data.py").write_text("def broken(:")
    with pytest.raises(SourceFailed, match="SyntaxError"):
        callables.load(f"{tmp_path}/data.py:give")
