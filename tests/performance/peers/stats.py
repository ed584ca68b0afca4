"""Medians, percentiles and spread of a list of samples."""
from __future__ import annotations

import dataclasses
import math

ENOUGH_FOR_P95, ENOUGH_FOR_P99 = 20, 100  # samples; of fewer, it would be the slowest by another name
NOISY = 0.25  # interquartile range over median of an anchor from which the machine was too busy


@dataclasses.dataclass(frozen=True)
class Summary:
    """In the unit of the samples; None where they are too few; spread is the interquartile range over the median."""

    count: int
    p50: float
    p95: float | None
    p99: float | None
    spread: float


def percentile(samples: list[float], percent: float) -> float:
    """Between the two neighbours in order, by distance."""
    ordered = sorted(samples)
    place = (len(ordered) - 1) * percent / 100
    low, high = math.floor(place), math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def summarize(samples: list[float]) -> Summary:
    if not samples:
        raise ValueError("no samples")
    p50 = percentile(samples, 50)
    quartiles = percentile(samples, 75) - percentile(samples, 25)
    p95 = percentile(samples, 95) if len(samples) >= ENOUGH_FOR_P95 else None
    p99 = percentile(samples, 99) if len(samples) >= ENOUGH_FOR_P99 else None
    return Summary(len(samples), p50, p95, p99, quartiles / p50 if p50 else 0.0)


def ratio(value: float, anchor: float | None) -> float | None:
    return value / anchor if anchor else None
