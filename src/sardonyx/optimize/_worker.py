"""Child process: makes one candidate. Request: `way`, `source`, `target`. Answer: `made`, `reason` (why not)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sardonyx import registry
from sardonyx.optimize.candidates._form import PACKAGE


def main() -> None:
    request = json.load(sys.stdin)
    reason = ""
    try:
        registry.load_light(PACKAGE, request["way"]).make(Path(request["source"]), Path(request["target"]))
    except Exception as error:  # noqa: BLE001  whatever the optimiser raises is its answer
        reason = " ".join(f"{type(error).__name__}: {error}".split())
    Path(request["answer"]).write_text(json.dumps({"made": not reason, "reason": reason}))


if __name__ == "__main__":
    main()
