"""Model control: what a repository holds, loading and unloading, on a port of its own."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from sardonyx.errors import SardonyxError
from sardonyx.serve.access import Access
from sardonyx.serve.engine import Models
from sardonyx.serve.exchange import Exchange
from sardonyx.serve.hosts import Hosts
from sardonyx.serve.parser import LARGE_JSON
from sardonyx.serve.refusal import BAD, NOT_ALLOWED, NOT_FOUND, TOO_LARGE, Refusal
from sardonyx.serve.routes import send_json

_log = logging.getLogger(__name__)


class Control:
    """The model-repository extension, on a port and with a token of its own."""

    def __init__(self, models: Models, access: Access, hosts: Hosts, spawn: Callable[[Any], Any]) -> None:
        self._models, self._access, self._hosts, self._spawn = models, access, hosts, spawn

    def admit(self, exchange: Exchange) -> None:
        self._hosts.check(exchange)
        self._access.check(exchange.token)
        if exchange.length > LARGE_JSON:
            raise Refusal(TOO_LARGE, "model control reads no body of this size")

    def rest(self) -> None:
        """Nothing is kept here."""

    def handle(self, exchange: Exchange) -> None:
        path = exchange.target.partition(b"?")[0].decode("latin-1")
        if exchange.method != b"POST":
            raise Refusal(NOT_ALLOWED, "model control takes POST", allow=("POST",))
        if path == "/v2/repository/index":
            self._spawn(self._answer_after(exchange, self._models.index()))
            return
        match = re.fullmatch(r"/v2/repository/models/([^/]+)/(load|unload)", path)
        if match is None:
            raise Refusal(NOT_FOUND, f"there is nothing at {path}")
        name = unquote(match[1])
        change = self._models.load(name) if match[2] == "load" else self._models.unload(name)
        self._spawn(self._answer_after(exchange, change))

    async def _answer_after(self, exchange: Exchange, change: Any) -> None:
        try:
            found = await change
        except Refusal as refusal:
            exchange.refuse(refusal)
        except SardonyxError as error:
            exchange.refuse(Refusal(BAD, error.message))
        except Exception:  # noqa: BLE001  the client is told, and the log says what
            _log.exception("model control failed by a fault of the server")
            exchange.refuse(Refusal(500, "a fault of the server; its log says more"))
        else:
            send_json(exchange, {} if found is None else found)
