"""Runs the benchmarks of this folder and writes what they print to RESULTS.md, each into its own section.

    python benchmarks/run.py                 # all of them; or: make bench
    python benchmarks/run.py startup         # one; the other sections stay as they are

A benchmark is a file that prints a section of Markdown. A name with an underscore is not one.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from sardonyx import machine

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
HEAD = """# Results

<!-- Written by benchmarks/run.py. Run `make bench` to measure again. -->

Every time is a ratio of variants that took turns on one machine, with a 95 % bootstrap interval. Absolute times belong to that
machine and to nothing else.
"""


def main(names: list[str]) -> None:
    known = sorted(path.stem for path in HERE.glob("[!_]*.py") if path.stem != "run")
    unknown = set(names) - set(known)
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    sections = read(RESULTS.read_text() if RESULTS.exists() else "")
    for name in names or known:
        print(f"{name} ...", flush=True)
        sections[name] = f"{measure(name)}\n\n{setting(name)}"
        RESULTS.write_text(write({name: sections[name] for name in known if name in sections}), encoding="utf-8")


def measure(name: str) -> str:
    """What the benchmark prints, in a process of its own."""
    done = subprocess.run([sys.executable, HERE / f"{name}.py"], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def setting(name: str) -> str:
    """How to measure it again, and on what it was measured."""
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in ("onnxruntime", "onnx", "numpy"))
    return (
        f"`python benchmarks/run.py {name}` on {machine.cpu_name()}, {machine.threads()} threads, "
        f"Python {platform.python_version()}, {versions}."
    )


def read(text: str) -> dict[str, str]:
    """The sections of a results page by name."""
    return dict(re.findall(r"<!-- begin (\w+) -->\n(.*?)\n<!-- end \1 -->", text, re.DOTALL))


def write(sections: dict[str, str]) -> str:
    parts = [f"<!-- begin {name} -->\n{text}\n<!-- end {name} -->" for name, text in sections.items()]
    return "\n\n".join((HEAD.strip(), *parts)) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
