"""One of several processes that serve: takes its options from stdin, says on stdout what it did, stops when stdin ends."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
from typing import Any

from sardonyx.errors import SardonyxError
from sardonyx.serve.options import Options
from sardonyx.serve.server import Server, run_loop, serve_until_told
from sardonyx.serve.service import logged_on_stderr, model_lines


def main() -> None:
    options: Options = pickle.load(sys.stdin.buffer)  # from the process that started this one
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        with logged_on_stderr(options):
            server: Server = run_loop(serve_until_told(options, lambda ready: _say(models=model_lines(ready))))
    except SardonyxError as error:
        _say(error=error.to_dict())
        sys.exit(error.exit_code)
    _say(answered=server.answered)


def _say(**facts: Any) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


def _stop_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
