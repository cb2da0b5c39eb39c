"""How many bytes of requests a process holds, in all and for each client. Beyond the limits a request is refused."""

from __future__ import annotations

import threading

from sardonyx.serve.options import Limits
from sardonyx.serve.refusal import UNAVAILABLE, Refusal


class Meter:
    """The bytes of bodies that are being read, decompressed or computed with. Threads may share it."""

    def __init__(self, limits: Limits) -> None:
        self._all, self._each = limits.held_bytes, limits.client_bytes
        self._lock = threading.Lock()
        self._clients: dict[str, int] = {}
        self.held = 0
        # Counted until memory is given back to the system.
        self.since_trim = 0

    def take(self, client: str, count: int) -> None:
        """Counts bytes that the client makes this process hold, or raises a refusal."""
        with self._lock:
            held = self._clients.get(client, 0) + count
            if self.held + count > self._all or held > self._each:
                raise Refusal(UNAVAILABLE, "the server holds as many bytes of requests as it may", retry_after=1)
            self._clients[client] = held
            self.held += count
            self.since_trim += count

    def give(self, client: str, count: int) -> None:
        """The bytes are held no longer."""
        with self._lock:
            held = self._clients.get(client, 0) - count
            self.held -= count
            if held > 0:
                self._clients[client] = held
            else:
                self._clients.pop(client, None)
