"""Where in a row of measured values so many hundredths of them lie below."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], hundredths: int) -> float:
    """Return the value that so many hundredths lie below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * hundredths // 100)]
