"""Rows of Yu and Joachims, "Training structural SVMs with kernels using sampled cuts": sample sizes.

The figures are from the table of ``python -m benchmarks.sampled_cuts``.
"""

from __future__ import annotations

# ruff: isort: split
import itertools

from benchmarks.papers.record import (
    Figures,
    Judgment,
    Row,
    judged,
    read,
    words,
)

SIZES = "sampled_cuts_sample_size"


def numbers(table: str, *names: str) -> Figures:
    """Columns of a stored table; numbers where they are numbers."""
    out: Figures = []
    for line in read(table):
        kept = {}
        for name in names:
            try:
                kept[name] = float(line[name])
            except ValueError:
                kept[name] = line[name] or None  # type: ignore[assignment]
        out.append(kept)
    return out


def sizes(*names: str) -> Figures:
    """Figures against the size of a sample."""
    return numbers(SIZES, "method", "C", "r", *names)


def _series(figures: Figures, name: str) -> dict[str, list[float]]:
    out: dict[str, list[float]] = {}
    for f in figures:
        out.setdefault(f"{f['method']}, C = {f['C']:g}", []).append(f[name])
    return out


def judge_time(figures: Figures) -> Judgment:
    """The largest sample is not the fastest, and linear time grows less than constant time."""
    series = _series(figures, "s")
    slowest = {k: v[-1] / min(v) for k, v in series.items()}
    figure = "time at r = 4000 over the least: " + "; ".join(
        f"{k}: {v:.2g}" for k, v in slowest.items()
    )
    one = slowest["linear time, C = 1"] < slowest["constant time, C = 1"]
    good = min(slowest.values()) > 1.0 and one
    why = (
        "The largest sample is never the fastest, and linear time grows less with r."
        if good
        else "The order is another one."
    )
    return judged(good, figure, why, "10,000", far=True)


def judge_iterations(figures: Figures) -> Judgment:
    """Iterations never rise with r, up to 15 percent for chance."""
    series = _series(figures, "iterations")
    figure = "; ".join(f"{k}: {words(v)}" for k, v in series.items())
    rise = [k for k, v in series.items() if any(b > 1.15 * a for a, b in itertools.pairwise(v))]
    why = "They fall in every series, apart from rises of at most 15 %."
    if rise:
        why = f"They rise once in {', '.join(rise)}."
    return judged(not rise, figure, why, "10,000", far=True)


def judge_flat(figures: Figures) -> Judgment:
    """Test errors for r of 400 and more differ by at most half a point."""
    kept = [f for f in figures if f["r"] >= 400]
    spread = {k: max(v) - min(v) for k, v in _series(kept, "test error %").items()}
    figure = "spread of the test error in points: " + "; ".join(
        f"{k}: {v:.2f}" for k, v in spread.items()
    )
    good = max(spread.values()) <= 0.5
    why = "At most half a point." if good else "More than half a point."
    return judged(good, figure, why, "10,000", far=True)


def rows() -> list[Row]:
    """Figures 4 to 7."""
    sampled = "a9a, 10,000 rows; r of 100, 400, 1000 and 4000"
    return [
        Row("yj-figure-4", lambda bench: sizes("s"), judge_time, sampled, (SIZES,)),
        Row("yj-figure-5", lambda bench: sizes("iterations"), judge_iterations, sampled, (SIZES,)),
        Row(
            "yj-figures-6-7",
            lambda bench: sizes("train error %", "test error %"),
            judge_flat,
            sampled,
            (SIZES,),
        ),
    ]
