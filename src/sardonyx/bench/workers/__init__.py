"""Runtimes in a process of their own, driven by sources/workers/_harness.py. They import nothing of Sardonyx."""
