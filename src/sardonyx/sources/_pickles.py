"""What a pickle would import, told from its first bytes without opening it."""

from __future__ import annotations

import bz2
import lzma
import pickletools
import zlib
from collections.abc import Iterator

_STRINGS = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"}
_GETS = {"BINGET", "LONG_BINGET", "GET"}
_PUTS = {"BINPUT", "LONG_BINPUT", "PUT"}
_PLUMBING = {"builtins", "__builtin__", "copyreg", "copy_reg", "collections"}
_PROTOCOL = b"\x80"


def packages(head: bytes) -> tuple[str, ...]:
    """The top-level packages whose classes the pickle names, the outermost object's first; empty if it is no pickle."""
    data = _unpacked(head)
    if not data.startswith(_PROTOCOL):
        return ()
    found = (module.partition(".")[0] for module in _modules(data))
    return tuple(dict.fromkeys(package for package in found if package not in _PLUMBING))


def _modules(data: bytes) -> Iterator[str]:
    """The module of every class or function that the opcodes look up, as far as the bytes go."""
    words: list[str] = []
    memo: dict[int, str] = {}
    last = ""
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in _STRINGS:
                last = str(argument)
                words.append(last)
            elif opcode.name in _GETS:
                words.append(memo.get(int(argument or 0), ""))
            elif opcode.name == "MEMOIZE":
                memo[len(memo)] = last
            elif opcode.name in _PUTS:
                memo[int(argument or 0)] = last
            elif opcode.name == "GLOBAL":
                yield str(argument).partition(" ")[0]
            elif opcode.name == "STACK_GLOBAL" and len(words) > 1:
                yield words[-2]
    except (ValueError, EOFError):  # the head ends in the middle of an opcode
        return


def _unpacked(head: bytes) -> bytes:
    """The first bytes behind the compression that joblib may have used."""
    try:
        if head[:1] == b"\x78":
            return zlib.decompressobj().decompress(head)
        if head[:2] == b"\x1f\x8b":
            return zlib.decompressobj(wbits=31).decompress(head)
        if head[:3] == b"BZh":
            return bz2.BZ2Decompressor().decompress(head)
        if head[:6] == b"\xfd7zXZ\x00" or head[:3] == b"\x5d\x00\x00":
            return lzma.LZMADecompressor().decompress(head)
    except (zlib.error, OSError, lzma.LZMAError):
        return head
    return head
