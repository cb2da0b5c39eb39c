"""Gradient rules, one file per family. `RULES`, `EXPANSIONS` and `ZERO` of every file here are the engine's tables."""
