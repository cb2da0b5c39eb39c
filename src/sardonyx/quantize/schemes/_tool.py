"""Other people's quantisers, which raise whatever they like: a tool that fails is a scheme that does not work here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sardonyx.errors import RuntimeRefused, SardonyxError


@contextmanager
def tool(name: str) -> Iterator[None]:
    """What the tool raises inside the block becomes a `RuntimeRefused` that names it."""
    try:
        yield
    except SardonyxError as error:
        raise RuntimeRefused(f"{name} gave a broken model: {error.message}", hint="try another scheme") from error
    except Exception as error:
        what = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RuntimeRefused(f"{name} failed: {what}", hint="try another scheme") from error
