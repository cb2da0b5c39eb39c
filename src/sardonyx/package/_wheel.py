"""This very Sardonyx as a wheel, and the exact versions of what it needs to serve: an image runs what was tested here."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib import metadata, resources
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sardonyx
from sardonyx.errors import InputError

_NAME = "sardonyx"
# Only conversion and training call it.
_NOT_FOR_SERVING = {"onnxscript"}
_LEFT_OUT = {"__pycache__"}
_WHEEL = "Wheel-Version: 1.0\nGenerator: sardonyx\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_ENTRY_POINTS = "[console_scripts]\nsardonyx = sardonyx.cli:main\n"


def write_wheel(folder: Path) -> Path:
    """A wheel of the installed package, made from its files as they lie there."""
    stem = f"{_NAME}-{sardonyx.__version__}"
    info = f"{stem}.dist-info"
    held = {f"{_NAME}/{name}": data for name, data in _sources().items()}
    held[f"{info}/METADATA"] = (_found(_NAME).read_text("METADATA") or "").encode()
    held[f"{info}/WHEEL"] = _WHEEL.encode()
    held[f"{info}/entry_points.txt"] = _ENTRY_POINTS.encode()
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in held.items()]
    held[f"{info}/RECORD"] = "\n".join((*rows, f"{info}/RECORD,,", "")).encode()
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in held.items():
            # A fixed date: equal files give equal wheels, and an image's layer stays in the cache.
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return path


def pins(extra: str = "serve") -> list[str]:
    """`name==version` of everything that the package needs with this extra, and of what these need in turn."""
    found: dict[str, str] = {}
    waiting = [Requirement(f"{_NAME}[{extra}]")]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in found or name in _NOT_FOR_SERVING:
            continue
        distribution = _found(wanted.name)
        found[name] = distribution.version
        waiting += [need for text in distribution.requires or () if _applies(need := Requirement(text), wanted.extras)]
    del found[_NAME]
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def _applies(need: Requirement, extras: set[str]) -> bool:
    return need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras or {""})


def _found(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise InputError(
            f"which version of {name} is installed cannot be found out", hint=f"install it with pip: pip install {name}"
        ) from error


def _sources() -> dict[str, bytes]:
    root = Path(str(resources.files(_NAME)))
    paths = (path for path in sorted(root.rglob("*")) if path.is_file() and not _LEFT_OUT & set(path.parts))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
