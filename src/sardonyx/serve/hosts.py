"""Under which names the server may be called, so that a page of another site cannot use a browser to reach it.

A name that a stranger owns can be made to lead to this machine (DNS rebinding); its requests carry that name as their Host. A
page of another site may also post without asking; its requests carry an Origin.
"""

from __future__ import annotations

from collections.abc import Iterable

from sardonyx.serve.exchange import Exchange
from sardonyx.serve.refusal import FORBIDDEN, MISDIRECTED, Refusal

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_READS = (b"GET", b"HEAD")
_KEPT = 256


class Hosts:
    """The names that a Host header may have: on a loopback address its names, and those that are given; else every name."""

    def __init__(self, bound: str, allowed: Iterable[str] = ()) -> None:
        given = {name.lower() for name in allowed}
        local = bound.lower() in LOOPBACK or bound.startswith("127.")
        self._names = {*given, *LOOPBACK, bound.lower()} if (local or given) and "*" not in given else None
        self._trusted = {name.encode() for name in given}
        # Clients repeat themselves: a request with one of these, and without an Origin, need not be checked.
        self.good: set[bytes | None] = {None}

    def check(self, exchange: Exchange) -> None:
        """Raises a refusal for a request that came under another name, or from a page of another site."""
        host = None if exchange.host is None else exchange.host.strip().lower()
        if host is not None and exchange.host not in self.good:
            if self._names is not None and name_of(host).decode("latin-1") not in self._names:
                raise Refusal(
                    MISDIRECTED, f"this server is not {host.decode('latin-1')}; --allow-host NAME adds a name"
                )
            if len(self.good) < _KEPT:
                self.good.add(exchange.host)
        if exchange.origin is None or exchange.method in _READS:
            return
        _, _, place = exchange.origin.strip().lower().partition(b"://")
        if not place or (place != host and name_of(place) not in self._trusted):
            raise Refusal(FORBIDDEN, "a page of another site may not call this server")


def name_of(place: bytes) -> bytes:
    """The name or number of a host, without its port and brackets."""
    if place.startswith(b"["):
        return place[1:].partition(b"]")[0]
    return place.partition(b":")[0] if place.count(b":") <= 1 else place
