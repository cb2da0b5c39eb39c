"""Run in a child process: imports onnxruntime, which a broken installation may not survive, and prints what it says."""

from __future__ import annotations

import json
import sys


def main() -> None:
    import onnxruntime

    answer = {
        "version": getattr(onnxruntime, "__version__", None),
        "providers": onnxruntime.get_available_providers() if hasattr(onnxruntime, "get_available_providers") else None,
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
