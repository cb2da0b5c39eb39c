"""What `sardonyx --help` costs beside the imports that it cannot do without.

Prints its section of RESULTS.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from _interleave import Ratio, process_seconds, processor_seconds, ratio, take_turns

LIMIT = 2.0
ROUNDS = 30
COMMAND = str(Path(sys.executable).with_name("sardonyx"))
IMPORTS = (sys.executable, "-c", "import typer, rich")
VERBS = ("--help", "--version", "check --help", "convert --help")


def main() -> None:
    print("## Start-up\n")
    print(
        f'Ratio to `python -c "import typer, rich"`, median of {ROUNDS} interleaved pairs with its 95 % interval. The'
    )
    print(f"goal for `sardonyx --help` is at most {LIMIT:g}.\n")
    print("| command | ratio of elapsed time | ratio of processor time |\n|---|---|---|")
    for words in VERBS:
        command = (COMMAND, *words.split())
        elapsed, processor = _ratio(process_seconds, command), _ratio(processor_seconds, command)
        print(f"| `sardonyx {words}` | {elapsed} | {processor} |", flush=True)


def _ratio(seconds: Callable[[Sequence[str]], Callable[[], float]], command: Sequence[str]) -> Ratio:
    return ratio(*take_turns([seconds(command), seconds(IMPORTS)], ROUNDS))


if __name__ == "__main__":
    main()
