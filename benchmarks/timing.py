"""Timing: what a sample is, interleaved repeats, medians and ratios with their spread."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["Clock", "Measurement", "interleave", "ratio", "timed"]


@dataclasses.dataclass(frozen=True)
class Clock:
    """Seconds of one sample: on the wall, and of the processor summed over all threads of the process."""

    wall: float
    cpu: float


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One measured quantity.

    Attributes:
        name: unique in a run, e.g. "end-to-end/tofu/S3/T=10000/cpu".
        unit: e.g. "us per seed-pull".
        values: one per repeat, in the order they were taken.
        note: what a reader must know to read the number right.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    note: str = ""

    @property
    def median(self) -> float:
        """The number to quote."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The smallest repeat."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest repeat."""
        return max(self.values)

    def to_json(self) -> dict[str, Any]:
        """As it stands in the results file."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "low": self.low,
            "high": self.high,
            "values": list(self.values),
            "note": self.note,
        }


def timed(work: Callable[[], Any]) -> Clock:
    """Runs it once; it must end only when its results are there."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Clock(time.perf_counter() - wall, time.process_time() - cpu)


def interleave(
    subjects: Mapping[str, Callable[[], Clock]], *, repeats: int, budget: float = float("inf")
) -> dict[str, list[Clock]]:
    """Samples subjects in turn, so that a machine that slows down slows all of them alike.

    Args:
        subjects: name to a function that takes one sample; whatever must be warm is warm.
        repeats: samples of each, at most.
        budget: seconds after which no further round begins; two rounds are always made unless ``repeats`` is 1.
    """
    begun = time.perf_counter()
    samples: dict[str, list[Clock]] = {name: [] for name in subjects}
    for done in range(repeats):
        if done >= 2 and time.perf_counter() - begun > budget:
            break
        for name, take in subjects.items():
            samples[name].append(take())
    return samples


def ratio(above: Sequence[float], below: Sequence[float]) -> tuple[float, ...]:
    """Ratios of samples taken in the same round; their median is the number to quote."""
    return tuple(a / b for a, b in zip(above, below, strict=True))
