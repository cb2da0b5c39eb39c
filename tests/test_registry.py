"""Plugins are found by being there, and imported only when used."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from sardonyx import registry
from sardonyx.errors import MissingExtra


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of plugins, each of which leaves a trace when it is imported."""
    name = f"plugins_{abs(hash(tmp_path)):x}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "plain.py").write_text("VALUE = 1\n")
    (folder / "needy.py").write_text('import absent_framework\nREQUIRES = "absent"\n')
    (folder / "_machinery.py").write_text("raise AssertionError('imported')\n")
    (folder / "notes.txt").write_text("not a plugin")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(registry.EXTRAS, "absent", ("absent_framework",))
    return name


def test_names_are_the_files_without_machinery_and_import_none(package: str) -> None:
    assert registry.names(package) == ["needy", "plain"]
    assert f"{package}.plain" not in sys.modules


def test_a_new_file_is_a_new_plugin(package: str, tmp_path: Path) -> None:
    (tmp_path / package / "fresh.py").write_text("VALUE = 2\n")
    assert registry.names(package) == ["fresh", "needy", "plain"]
    assert registry.load(package, "fresh").VALUE == 2


def test_what_a_plugin_requires_is_read_without_running_it(package: str) -> None:
    assert registry.requires(package, "needy") == "absent"
    assert registry.requires(package, "plain") is None


def test_a_plugin_without_its_extra_says_how_to_install_it(package: str) -> None:
    with pytest.raises(MissingExtra, match="needy needs the extra 'absent'") as caught:
        registry.load(package, "needy")
    assert caught.value.hint == "pip install 'sardonyx[absent]'"


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert set(registry.EXTRAS) == set(project["optional-dependencies"])
