"""Interleaved measuring: variants take turns, so that a busy moment hits all of them, and a ratio comes with an interval."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

RESAMPLES = 2000


@dataclass(frozen=True)
class Ratio:
    """The median of the paired ratios and its 95 % bootstrap interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def take_turns(variants: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """What each variant measured in each round; the order changes from round to round."""
    order, shuffled = list(range(len(variants))), random.Random(0)
    found: list[list[float]] = [[] for _ in variants]
    for variant in variants:
        variant()  # warm the caches, once, unmeasured
    for _ in range(rounds):
        shuffled.shuffle(order)
        for index in order:
            found[index].append(variants[index]())
    return found


def ratio(of: Sequence[float], to: Sequence[float]) -> Ratio:
    """How many times `to` goes into `of`, pair by pair."""
    pairs = [a / b for a, b in zip(of, to, strict=True)]
    drawn = random.Random(0)
    medians = sorted(statistics.median(drawn.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return Ratio(statistics.median(pairs), medians[RESAMPLES // 40], medians[-RESAMPLES // 40])


def process_seconds(command: Sequence[str]) -> Callable[[], float]:
    """Measures the time from the start of a process to its end."""

    def measure() -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started

    return measure


def processor_seconds(command: Sequence[str]) -> Callable[[], float]:
    """Measures the time that a process computes, which a busy machine does not lengthen."""

    def measure() -> float:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return usage.ru_utime + usage.ru_stime

    return measure
