"""What a pickle would import is read from its opcodes; nothing in it is run."""

from __future__ import annotations

import bz2
import gzip
import lzma
import pickle
import zlib
from collections import OrderedDict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from sardonyx.sources._pickles import packages


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_the_outermost_package_comes_first(protocol: int) -> None:
    data = pickle.dumps([Path("a"), Fraction(1, 2), Path("b")], protocol=protocol)
    assert packages(data) == ("pathlib", "fractions")


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress, bz2.compress, lzma.compress])
def test_compression_is_looked_through(pack: Callable[[bytes], bytes]) -> None:
    assert packages(pack(pickle.dumps(Fraction(1, 2)))) == ("fractions",)


def test_the_start_of_a_file_is_enough() -> None:
    data = pickle.dumps((Fraction(1, 2), b"x" * 10_000))
    assert packages(data[:200]) == ("fractions",)


def test_a_module_that_was_named_before_is_found_again() -> None:
    assert packages(pickle.dumps([Fraction(1, 2), OrderedDict(a=Path("a"))])) == ("fractions", "pathlib")


@pytest.mark.parametrize("data", [b"", b"\x80", b"PK\x03\x04", b"BZh", b"\x78\x9cnot zlib", b"\x1f\x8bno", b"{}"])
def test_other_bytes_name_nothing(data: bytes) -> None:
    assert packages(data) == ()


def test_nothing_is_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> object:
            return Path.touch, (tmp_path / "opened",)

    assert packages(pickle.dumps(Trap())) == ("pathlib",)
    assert not (tmp_path / "opened").exists()
