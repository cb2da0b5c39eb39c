"""What every verb promises: one JSON object on request, exit codes 0 to 3, and no traceback without --debug."""

from __future__ import annotations

import functools
import inspect
import json as jsonlib
import os
import sys
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from sardonyx import blame, containment
from sardonyx.cli import _contained, _interrupt
from sardonyx.cli._terminal import prints_on_stderr, progress_on_stderr, ready_streams, stdout_width, wants_colour
from sardonyx.errors import Internal, Interrupted, OutputError, SardonyxError, UsageError
from sardonyx.report import Report, inset

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Draw no progress.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def keeps(verb: str, command: Callable[..., Report]) -> Callable[..., None]:
    """The command with --json, --quiet and --debug added, its report printed and its exit code set."""

    @functools.wraps(command)
    def wrapper(*args: Any, json: bool, quiet: bool, debug: bool, **options: Any) -> None:
        def do() -> Report:
            with prints_on_stderr(), progress_on_stderr(quiet), _errors_named(debug, given):
                return command(*args, **options)

        given = inspect.signature(command).bind(*args, **options).arguments
        try:
            report = _contained.call(verb, do, given)
        except Exception as error:  # noqa: BLE001  the one place where every error gets its name
            if debug and not isinstance(error, SardonyxError):
                traceback.print_exc()
            if _interrupt.struck():
                raise KeyboardInterrupt from None
            named = _named(error)
            _say_error(verb, named, json)
            raise typer.Exit(named.exit_code) from None
        _print(
            report.to_json() + "\n" if json else report.to_text(width=stdout_width(), colour=wants_colour(sys.stdout))
        )
        raise typer.Exit(0 if report.ok else 1)

    hints = typing.get_type_hints(command, include_extras=True)
    signature = inspect.signature(command)
    parameters = [p.replace(annotation=hints[p.name]) for p in signature.parameters.values()]
    for name, kind in (("json", Json), ("quiet", Quiet), ("debug", Debug)):
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind))
    wrapper.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    del wrapper.__wrapped__  # typer would follow it past the added options
    return wrapper


@contextmanager
def _errors_named(debug: bool, given: Mapping[str, Any]) -> Iterator[None]:
    """Every error of the block becomes one with a name, as another process can tell it; --debug shows where it came from."""
    try:
        yield
    except Exception as error:
        if debug:
            traceback.print_exc()
        if _interrupt.struck():
            raise KeyboardInterrupt from None
        if containment.inside() and not isinstance(error, OSError):
            raise blame.named(error, _contained.models(given)) from error
        raise _named(error) from error


def call(build: Callable[[], typer.Typer], words: Sequence[str]) -> int:
    """Runs the application and gives its exit code. Usage errors read like every other error."""
    import click

    ready_streams()
    try:
        code = int(build()(list(words), prog_name="sardonyx", standalone_mode=False) or 0)
        if code == Interrupted.exit_code:  # what typer makes of KeyboardInterrupt, wherever it struck
            raise KeyboardInterrupt
        return code
    except click.exceptions.NoArgsIsHelpError as error:
        _print(error.format_message() + "\n")
        return UsageError.exit_code
    except click.ClickException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "sardonyx")
        usage = UsageError(error.format_message(), hint=f"see {command} --help")
        _say_error(command.partition(" ")[2], usage, "--json" in words)
        return usage.exit_code
    except (click.Abort, KeyboardInterrupt):
        stopped = Interrupted("interrupted", hint="nothing was half-written; run the command again")
        _say_error(words[0] if words else "", stopped, "--json" in words)
        return stopped.exit_code
    except OSError as error:
        _let_stdout_go()
        full = OutputError(f"cannot write to stdout: {error.strerror}", hint="free some space or write elsewhere")
        _say_error("", full, json=False)
        return full.exit_code


def _named(error: Exception) -> SardonyxError:
    if isinstance(error, SardonyxError):
        return error
    if isinstance(error, OSError):
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        return OutputError(what, hint="check the path, its permissions and the space on the disk")
    if isinstance(error, MemoryError):
        return Internal("out of memory", hint="close other programs or use a smaller input")
    what = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return Internal(
        f"a fault of sardonyx itself: {what}", hint="run the command again with --debug and report what it shows"
    )


def _say_error(verb: str, error: SardonyxError, json: bool) -> None:
    if json:
        told = {"verb": verb, "ok": False, "verdict": "error", "error": error.to_dict(), "findings": []}
        _print(jsonlib.dumps(told, ensure_ascii=False) + "\n")
        return
    red, dim, off = ("\033[31m", "\033[2m", "\033[0m") if wants_colour(sys.stderr) else ("", "", "")
    sys.stderr.write(f"{red}error[{error.code}]:{off} {inset(error.message)}\n")
    if error.hint:
        sys.stderr.write(f"{dim}hint:{off} {inset(error.hint)}\n")


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _let_stdout_go()  # the reader has gone, as in `sardonyx inspect m.onnx | head`


def _let_stdout_go() -> None:
    """What is left in the buffer goes nowhere, so that the interpreter's last flush is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
