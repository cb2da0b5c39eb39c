"""The command line: one file per verb, and the contract that all of them keep.

Data goes to stdout and progress to stderr. `--json` makes stdout exactly one object. Exit 0: done, and the verdict is
good; 1: done, and the verdict is bad; 2: bad usage or input; 3: an extra is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated

import typer
import typer.core

from sardonyx import __version__, process, registry
from sardonyx.cli import _contract, _interrupt
from sardonyx.report import Report

# Help is plain text: it reads the same in a pipe, and rich is imported only to draw tables.
typer.core.HAS_RICH = False
EPILOG = "Every verb takes --json and --help. Exit codes: 0 good, 1 bad verdict, 2 bad input, 3 an extra is missing."


def build() -> typer.Typer:
    """The application, with a command for every file in this folder."""
    app = typer.Typer(
        name="sardonyx", help="Carry a trained model to ONNX and prove every step by measuring.", epilog=EPILOG,
        no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    )  # fmt: skip
    for name in registry.names(__name__):
        verb = getattr(import_module(f"{__name__}.{name}"), name)
        if isinstance(verb, dict):
            app.add_typer(_group(name, verb), name=name)
        else:
            app.command(name)(_contract.keeps(name, verb))
    app.callback()(_root)
    return app


def commands() -> list[str]:
    """Every command in words, those of a verb with verbs of its own included: `bench`, …, `train prepare`, `train run`."""
    found = []
    for name in registry.names(__name__):
        verb = getattr(import_module(f"{__name__}.{name}"), name)
        found += [f"{name} {inner}" for inner in verb] if isinstance(verb, dict) else [name]
    return found


def _group(name: str, verbs: Mapping[str, Callable[..., Report]]) -> typer.Typer:
    """A verb whose file binds its name to a table of verbs."""
    text = f"{', '.join(verbs)}: see sardonyx {name} VERB --help."
    group = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
    for inner, function in verbs.items():
        group.command(inner)(_contract.keeps(f"{name} {inner}", function))
    return group


def main() -> None:
    """The entry point of the `sardonyx` command."""
    with process.belongs_to(next(iter(sys.argv[1:]), "")):
        _interrupt.listen()
        code = _contract.call(build, sys.argv[1:])
        _interrupt.rest()
    sys.exit(code)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sardonyx {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...
