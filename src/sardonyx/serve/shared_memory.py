"""System shared memory: tensors that a client on this machine leaves in /dev/shm. Off unless a name space is given.

Regions are read and written, not mapped: a client that cuts its file short then gets a refusal, where a map would end the server.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sardonyx.serve.refusal import FORBIDDEN, NOT_FOUND, Refusal, bad

FOLDER = Path("/dev/shm")
_MOST_REGIONS = 256
_KEY = re.compile(r"/?([A-Za-z0-9_.-]{1,200})")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a region, as a request names it."""

    region: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Region:
    """A file in shared memory that a client has registered."""

    name: str
    key: str
    offset: int
    size: int
    file: int

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "key": self.key, "offset": self.offset, "byte_size": self.size}


class Regions:
    """The regions of a server. Only files whose names begin with `prefix` can be registered; None is for no file at all."""

    def __init__(self, prefix: str | None) -> None:
        self._prefix = prefix
        self._regions: dict[str, Region] = {}

    @property
    def on(self) -> bool:
        return self._prefix is not None

    def register(self, name: str, key: Any, offset: Any, size: Any) -> None:
        """Opens a client's file. Its name is checked before the system sees it."""
        match = _KEY.fullmatch(key) if isinstance(key, str) else None
        if self._prefix is None or match is None or not match[1].startswith(self._prefix):
            raise Refusal(FORBIDDEN, f"shared memory {key!r} is outside of what this server may open")
        if type(offset) is not int or type(size) is not int or offset < 0 or size < 1:
            raise bad(f"region {name}: offset and byte_size are whole numbers, and byte_size is above 0")
        if name in self._regions or len(self._regions) >= _MOST_REGIONS:
            raise bad(f"region {name} is registered already, or there are too many")
        try:
            file = os.open(FOLDER / match[1], os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise bad(f"region {name}: {key} cannot be opened: {error.strerror}") from None
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size < offset + size:
            os.close(file)
            raise bad(f"region {name}: {key} is not a plain file of {offset + size} bytes or more")
        self._regions[name] = Region(name, key, offset, size, file)

    def unregister(self, name: str | None = None) -> None:
        """Closes one region, or all of them. One that is not there is no error, as with Triton."""
        for known in [*self._regions] if name is None else [name]:
            region = self._regions.pop(known, None)
            if region is not None:
                os.close(region.file)

    def status(self, name: str | None = None) -> list[dict[str, Any]]:
        if name is not None and name not in self._regions:
            raise Refusal(NOT_FOUND, f"no region {name} is registered")
        return [region.to_dict() for region in self._regions.values() if name in (None, region.name)]

    def read(self, span: Span) -> bytes:
        """The bytes of the span as they are now."""
        region = self._at(span)
        data = os.pread(region.file, span.size, region.offset + span.offset)
        if len(data) != span.size:
            raise bad(f"region {span.region} has been cut short")
        return data

    def write(self, span: Span, data: bytes | memoryview) -> None:
        """Puts an output where the client wants it."""
        region = self._at(span)
        if len(data) > span.size:
            raise bad(f"region {span.region}: the output has {len(data)} bytes, and the request gives it {span.size}")
        if os.fstat(region.file).st_size < region.offset + span.offset + len(data):
            raise bad(f"region {span.region} has been cut short")
        os.pwrite(region.file, data, region.offset + span.offset)

    def _at(self, span: Span) -> Region:
        region = self._regions.get(span.region)
        if region is None:
            raise bad(f"no region {span.region} is registered")
        if span.offset + span.size > region.size:
            raise bad(f"region {span.region} has {region.size} bytes, and the request goes beyond")
        return region


def span(params: Mapping[str, Any], where: str) -> Span | None:
    """The span that the parameters of a tensor name, if they do."""
    region = params.get("shared_memory_region")
    if region is None:
        return None
    offset, size = params.get("shared_memory_offset", 0), params.get("shared_memory_byte_size")
    if not isinstance(region, str) or type(offset) is not int or type(size) is not int or min(offset, size) < 0:
        raise bad(f"{where}: its shared_memory parameters are a name and whole numbers")
    return Span(region, offset, size)
