"""The commands of the README and of the guides run: every `sh` and `python` block of a page, in order, in one empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from halves import split
from sardonyx import registry

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs" / "guides").glob("*.md"))]

# Commands that set up an installation. What they name is looked up instead of run.
_SET_UP = re.compile(r"^(make|pip install|git clone|cd)\b")


@dataclass(frozen=True)
class Block:
    """A piece of code in a page."""

    language: str
    text: str

    def script(self) -> list[str]:
        if self.language == "python":
            return [sys.executable, "-c", self.text]
        lines = (line for line in self.text.splitlines() if not _SET_UP.match(line))
        return ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]

    def promises(self) -> list[str]:
        """The files that its commands say they write."""
        return re.findall(r"(?:-o|--output|--fix)[ =]([\w./-]+)", self.text) if self.language == "sh" else []


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in re.findall(r"^```(sh|python)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)]


def run(block: Block, folder: Path) -> None:
    """Runs the block with this environment's commands first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(block.script(), cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
    for promised in block.promises():
        assert (folder / promised).exists(), f"{block.text} did not write {promised}"


@pytest.mark.heavy
@pytest.mark.parametrize("page", split(PAGES, "README", ids=[page.stem for page in PAGES]))
def test_the_commands_of_a_page_run_and_write_what_they_promise(tmp_path: Path, page: Path) -> None:
    for block in blocks(page.read_text()):
        run(block, tmp_path)


def test_the_readme_shows_commands_that_run() -> None:
    assert blocks(README.read_text())


def test_what_the_readme_sets_up_with_exists() -> None:
    text = README.read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^(?:\$ )?make ([a-z]+)", text, re.MULTILINE)) <= targets
    for extras in re.findall(r"sardonyx\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= set(registry.EXTRAS)


PAGE = """
```sh
make demo
echo one > a.txt
cp a.txt b.txt  # -o b.txt
```

```python
from pathlib import Path
assert Path("b.txt").read_text() == "one\\n"
```

```text
this is not run
```
"""


def test_blocks_run_in_order_in_one_folder(tmp_path: Path) -> None:
    found = blocks(PAGE)
    assert [block.language for block in found] == ["sh", "python"]
    for block in found:
        run(block, tmp_path)


@pytest.mark.parametrize(
    "block",
    [Block("sh", "false"), Block("sh", "false | cat"), Block("python", "1 / 0"), Block("sh", "true -o gone.onnx")],
    ids=["a failure", "a failure in a pipe", "an error", "a broken promise"],
)
def test_a_block_that_does_not_do_what_it_says_is_caught(tmp_path: Path, block: Block) -> None:
    with pytest.raises(AssertionError):
        run(block, tmp_path)
