"""Child process: makes candidates, one after the other. Request: `ways`, `source`, `folder`.

Answer, by the name of each way that is done: `notes`, or null where it stood aside; `reason`, why it made none; `seconds`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from sardonyx import registry
from sardonyx.optimize.candidates._form import PACKAGE, target_of


def main() -> None:
    request = json.load(sys.stdin)
    done: dict[str, Any] = {}
    for name in request["ways"]:
        done[name] = _made(name, Path(request["source"]), Path(request["folder"]))
        # The answer is whole at every moment: the parent ends this process when the time is up.
        partly = Path(request["answer"]).with_suffix(".part")
        partly.write_text(json.dumps(done))
        partly.replace(request["answer"])


def _made(name: str, source: Path, folder: Path) -> dict[str, Any]:
    started, notes, reason = time.perf_counter(), None, ""
    try:
        notes = registry.load_light(PACKAGE, name).make(source, target_of(name, folder))
    except Exception as error:  # noqa: BLE001  whatever the optimiser raises is its answer
        reason = " ".join(f"{type(error).__name__}: {error}".split())
    told = None if notes is None else [[note.rewrite, note.node, note.done, note.reason] for note in notes]
    return {"notes": told, "reason": reason, "seconds": time.perf_counter() - started}


if __name__ == "__main__":
    main()
