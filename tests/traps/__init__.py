"""Models written to be exported wrongly, and honest ones of the same kind: see `_trap.py`, and `_run.py` to run them."""
