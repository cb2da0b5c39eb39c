"""Who may call: bearer tokens or API keys, each for every model or for some."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable
from pathlib import Path

from sardonyx.errors import NotFound, UsageError
from sardonyx.serve.refusal import FORBIDDEN, UNKNOWN_CALLER, Refusal, plain

_log = logging.getLogger(__name__)


class Access:
    """The tokens of a server. Without any, everyone who reaches the port may call."""

    def __init__(self, tokens: Iterable[str] = (), file: Path | None = None) -> None:
        self._tokens: dict[bytes, frozenset[str] | None] = {token.encode(): None for token in tokens}
        if file is not None:
            self._tokens |= _read(file)
        if b"" in self._tokens:
            raise UsageError("a token is empty", hint="give some characters")

    @property
    def open(self) -> bool:
        return not self._tokens

    def check(self, token: bytes | None, model: str | None = None) -> frozenset[str] | None:
        """The models that the token is for, None for all, or a refusal where it is unknown or not for this model."""
        if not self._tokens:
            return None
        found = None
        # Every token is compared, in a time that does not tell how much of it was right.
        for known in self._tokens:
            if hmac.compare_digest(known, token or b""):
                found = known
        if found is None:
            _log.warning("refused a request with %s", "a wrong token" if token else "no token")
            raise Refusal(UNKNOWN_CALLER, "the token is missing or wrong; send Authorization: Bearer TOKEN")
        models = self._tokens[found]
        if model is not None and models is not None and model not in models:
            _log.warning("refused a request for model %s: its token is for others", plain(model))
            raise Refusal(FORBIDDEN, f"the token is not for model {model}")
        return models

    def check_all(self, token: bytes | None) -> None:
        """Raises a refusal unless the token is for every model."""
        if self.check(token) is not None:
            raise Refusal(FORBIDDEN, "the token is for some models, and this needs one that is for all")


def bearer(value: bytes) -> bytes:
    """The token of an Authorization header."""
    scheme, _, token = value.strip().partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def _read(file: Path) -> dict[bytes, frozenset[str] | None]:
    """A token a line, and after it the models that it is for, if it is not for all."""
    if not file.is_file():
        raise NotFound(f"{file} does not exist", hint="give a file with one token a line")
    lines = [line.split() for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise UsageError(f"{file} holds no token", hint="write one token a line")
    return {token.encode(): frozenset(models) if models else None for token, *models in lines}
