"""The tables and the plot of the kernel benchmark, from the runs in its CSV file."""

from __future__ import annotations

from benchmarks.common import HERE, Cell, Row, machine, markdown

# ruff: isort: split
import csv
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kernel_cells import CELLS, LIMIT, MAIN, PEERS, PROBLEMS, SIZES, TIMED_ROWS

Runs = dict[tuple[str, int, str], Cell]
FOLDER = HERE / "results"
#: "exact" guarantees a gap of at most this
TOL = 1e-3


class Found:
    """The runs of one method in one cell: medians over the seeds."""

    def __init__(self, runs: Runs, cell: str, method: str) -> None:
        self.all = [run for (c, _, m), run in sorted(runs.items()) if (c, m) == (cell, method)]
        self.done = [run for run in self.all if run["status"] == "done"]
        self.late = any(run["status"] == "limit" for run in self.all)
        self.failed = any(run["status"].startswith("failed") for run in self.all)

    def __bool__(self) -> bool:
        return bool(self.done or self.late)

    def get(self, name: str) -> float | None:
        """The median of a column."""
        values = [float(run[name]) for run in self.done if run.get(name, "") not in ("", None)]
        return statistics.median(values) if values else None

    def worst(self, name: str) -> float | None:
        """The largest of a column."""
        values = [float(run[name]) for run in self.done if run.get(name, "") not in ("", None)]
        return max(values, default=None)

    def seconds(self) -> float | None:
        """CPU s of the fit; the limit, where it was reached."""
        return float(LIMIT) if self.late else self.get("seconds")

    def certified(self) -> bool:
        """Whether every seed reached the requested gap."""
        gap = self.worst("gap")
        return not self.late and gap is not None and gap <= TOL * (1 + 1e-6)


def report(runs: Runs) -> None:
    """Write all tables for which there are runs."""
    sections = [
        ("fits", "Fits", fits(runs), FITS),
        ("two_threads", "Two threads", two_threads(runs), TWO_THREADS),
        ("prediction", "Prediction", predictions(runs), PREDICTION),
        ("crossovers", "Where one method overtakes another", crossovers(runs), CROSSOVER),
        ("small_fits", "Small fits, which the crossovers are read from", small(runs), ""),
        ("auto", "What auto chose", choices(runs), CHOICES),
    ]
    dates = sorted({run["date"] for run in runs.values()})
    marks = sorted({run["sources"] for run in runs.values() if run["method"] not in PEERS} - {""})

    def methods_on(date: str) -> str:
        return ", ".join(sorted({run["method"] for run in runs.values() if run["date"] == date}))

    lines = [
        "# Kernel machines against LIBSVM and oneDAL",
        "",
        f"Measured {' to '.join(dict.fromkeys([dates[0], dates[-1]])) if dates else '–'}. {machine()}.",
        f"Fits were measured with library sources {', '.join(marks)}." if marks else "",
        "Methods by date: " + "; ".join(f"{date} {methods_on(date)}" for date in dates) + ".",
        "Made by `python -m benchmarks.kernels`; all runs are in `kernels_runs.csv`. " + HEAD,
    ]
    for slug, heading, rows, notes in sections:
        lines += ["", f"## {heading}", ""]
        if rows:
            lines += markdown(rows) + ([""] if notes else [])
            _write(FOLDER / f"kernels_{slug}.csv", rows)
        lines += [notes.strip()] if notes else []
    (FOLDER / "kernels.md").write_text("\n".join(lines).rstrip() + "\n")
    from benchmarks.kernel_plot import plot

    plot({k: v for k, v in _curves(runs).items() if v}, FOLDER / "kernels.png")


HEAD = (
    "Seconds are CPU seconds of one thread, after a small fit has loaded the compiled functions; medians of "
    "three seeds up to 50,000 samples, one above; of SVC one seed in the main table. SVC and oneDAL have a "
    "cache of 1 GB and are killed after "
    f"{LIMIT} CPU seconds. RBF kernel, unpenalized intercept, dense double-precision data for all: "
    + "; ".join(f"{name} gamma {p.gamma:g}, C {p.C:g}" for name, p in PROBLEMS.items())
    + ". covtype is class 2 one-vs-rest, standardized; mnist 0–4 against 5–9; mnist10 all digits, "
    "one-vs-one; checkerboard 4 x 4 with 2 % of the labels flipped."
)
FITS = f"""
- **ratio** is SVC's time divided by ours, **oneDAL ratio** that of oneDAL; `>` means that it was killed.
  **exact** has a target gap of {TOL:g} for the full problem; the gap shown is the largest over the seeds. A
  larger gap means that it did not finish within {LIMIT} s.
- SVC and oneDAL use the same stopping rule (violations of optimality below 1e-3) and give no bound.
- **nystrom** solves a restricted problem with at most 1,000 landmarks: the gap is that of this problem, and
  there is no lower bound for the full one. **SVs** are samples with a nonzero coefficient, **values**
  computed kernel values, **GB** the peak resident memory of the process, including data.
"""
TWO_THREADS = """
Wall seconds of one seed. **times faster** compares two threads of ours with one, **oneDAL ratio** is the time
of two threads of oneDAL divided by that of two of ours. Our weights do not depend on the number of threads.
"""
PREDICTION = f"""
Microseconds per sample for the same {TIMED_ROWS:,} test samples in one call, one thread, after a call with
200 samples. With sparse storage, LIBSVM predicts a9a and covtype about twice as fast as shown for dense data,
and fits them 1.2 to 1.6 times slower; it predicts and fits MNIST two to three times slower.
"""
CROSSOVER = """
The number of samples from which the first method is faster than the second, interpolated between the measured
sizes (in logarithms); "<" and ">" if it is faster, or slower, at all measured sizes. nystrom counts as slower
than exact if its test error is more than 0.3 points higher.
"""
CHOICES = """
auto chooses exact as long as that takes no more kernel values than the budget, **allowed**. It is right if it
chose exact and exact stayed within the budget and was certified within the limit, or if it chose nystrom and
exact did not. **faster** is the faster method by measured time, at a test error within 0.3 points.
"""


# -- tables ----------------------------------------------------------------------------------------


def fits(runs: Runs) -> list[Row]:
    """The main table."""
    rows: list[Row] = []
    for cell, (_, n) in MAIN.items():
        svc, exact, low = (Found(runs, cell, m) for m in ("svc", "exact", "nystrom"))
        if not (svc or exact or low):
            continue
        onedal = Found(runs, cell, "onedal")
        late, slow = (">" if peer.late else "" for peer in (svc, onedal))
        rows.append(
            {
                "cell": cell,
                "rows": n,
                "SVC s": _late(svc),
                "exact s": _figure(exact.seconds()),
                "ratio": late + _figure(_ratio(svc.seconds(), exact.seconds())),
                "oneDAL s": _late(onedal),
                "oneDAL ratio": slow + _figure(_ratio(onedal.seconds(), exact.seconds())),
                "exact gap": exact.worst("gap"),
                "SVC err %": _percent(svc),
                "exact err %": _percent(exact),
                "SVC SVs": _count(svc.get("SVs")),
                "exact SVs": _count(exact.get("SVs")),
                "exact values": _figure(exact.get("kernel_values")),
                "exact GB": _figure(exact.get("memory")),
                "nystrom s": _figure(low.seconds()),
                "nystrom err %": _percent(low),
                "restricted gap": low.worst("restricted_gap"),
                "nystrom GB": _figure(low.get("memory")),
            }
        )
    return rows


def two_threads(runs: Runs) -> list[Row]:
    """Wall times of one and two threads."""
    rows: list[Row] = []
    for cell in MAIN:
        names = ("exact (1 thread)", "exact (2 threads)", "onedal (2 threads)")
        keys = [(cell, 0, name) for name in names]
        if keys[1] not in runs:
            continue
        one, two, theirs = (_wall(runs.get(key)) for key in keys)
        late = keys[2] in runs and runs[keys[2]]["status"] == "limit"
        rows.append(
            {
                "cell": cell,
                "exact, 1 thread": _figure(one),
                "exact, 2 threads": _figure(two),
                "times faster": _figure(_ratio(one, two)),
                "oneDAL, 2 threads": f"> {LIMIT} CPU s" if late else _figure(theirs),
                "oneDAL ratio": _figure(_ratio(theirs, two)),
            }
        )
    return rows


def _wall(run: Cell | None) -> float | None:
    return float(run["wall"]) if run and run.get("wall") not in ("", None) else None


def predictions(runs: Runs) -> list[Row]:
    """Time per row."""

    def pace(found: Found) -> float | None:
        seconds, rows = found.get("predict_seconds"), found.get("predict_rows")
        return None if seconds is None or rows is None else 1e6 * seconds / rows

    out: list[Row] = []
    for cell in MAIN:
        svc, exact, low = (Found(runs, cell, m) for m in ("svc", "exact", "nystrom"))
        if exact.done or low.done:
            out.append(
                {
                    "cell": cell,
                    "SVC µs/row": _figure(pace(svc)),
                    "exact µs/row": _figure(pace(exact)),
                    "ratio": _figure(_ratio(pace(svc), pace(exact))),
                    "oneDAL µs/row": _figure(pace(Found(runs, cell, "onedal"))),
                    "exact SVs": _count(exact.get("SVs")),
                    "nystrom µs/row": _figure(pace(low)),
                }
            )
    return out


def crossovers(runs: Runs) -> list[Row]:
    """The number of samples from which one method is faster than another."""
    out: list[Row] = []
    for name in _sets():
        line: Row = {"data": name}
        for first, second in (("svc", "exact"), ("svc", "nystrom"), ("exact", "nystrom")):
            line[f"{second} beats {first} from"] = crossover(runs, name, first, second)
        out.append(line)
    return out


def crossover(runs: Runs, name: str, first: str, second: str) -> str | None:
    """The number of samples at which the ratio of times crosses 1 for the last time."""
    points = []
    for cell in _cells(name):
        a, b = Found(runs, cell, first), Found(runs, cell, second)
        if not (a and b):
            continue
        ratio = _ratio(a.seconds(), b.seconds())
        assert ratio is not None
        if (first == "exact" and not _close(b, a)) or (second == "exact" and not b.certified()):
            ratio = min(ratio, 0.999)
        points.append((CELLS[cell][1], math.log(ratio)))
    if not points:
        return None
    points.sort()
    if points[-1][1] < 0:
        return f"> {points[-1][0]:,}"
    slower = [k for k, (_, value) in enumerate(points) if value < 0]
    if not slower:
        return f"< {points[0][0]:,}"
    (n0, v0), (n1, v1) = points[slower[-1]], points[slower[-1] + 1]
    where = math.exp(math.log(n0) + (math.log(n1) - math.log(n0)) * v0 / (v0 - v1))
    return f"{float(f'{where:.2g}'):,.0f}"


def small(runs: Runs) -> list[Row]:
    """Times of the small cells."""
    out: list[Row] = []
    for name in _sets():
        for cell in _cells(name):
            found = {m: Found(runs, cell, m) for m in ("svc", "exact", "nystrom")}
            if CELLS[cell][1] > SIZES[-1] or not all(found.values()):
                continue
            line: Row = {"data": name, "rows": CELLS[cell][1]}
            line |= {f"{m} s": _figure(f.seconds()) for m, f in found.items()}
            line |= {f"{m} err %": _percent(f) for m, f in found.items()}
            out.append(line | {"exact gap": found["exact"].worst("gap")})
    return out


def choices(runs: Runs) -> list[Row]:
    """The choice of "auto", and whether it was right."""
    from maxmargin import KernelSVC

    allowed = float(KernelSVC().max_kernel_values)
    out: list[Row] = []
    for cell, (_, n) in CELLS.items():
        auto, exact, low = (Found(runs, cell, m) for m in ("auto", "exact", "nystrom"))
        if not auto.done or not exact or not low.done:
            continue
        chose = "nystrom" if low_rank(auto) else "exact"
        keeps = exact.certified() and (exact.get("kernel_values") or 0.0) <= allowed
        out.append(
            {
                "cell": cell,
                "rows": n,
                "auto": chose,
                "auto s": _figure(auto.seconds()),
                "exact s": _figure(exact.seconds()),
                "nystrom s": _figure(low.seconds()),
                "exact values": _figure(exact.get("kernel_values")),
                "allowed": _figure(allowed),
                "exact err %": _percent(exact),
                "nystrom err %": _percent(low),
                "faster": faster(exact, low),
                "right": (chose == "exact") == keeps,
            }
        )
    if out:
        hits = sum(bool(row["right"]) for row in out)
        out.append({**dict.fromkeys(out[0], ""), "cell": f"{hits} of {len(out)} right"})
    return out


def low_rank(auto: Found) -> bool:
    """Whether "auto" chose landmarks: it then gives no bound for the full problem."""
    return str(auto.done[-1]["certificate"]) == "restricted"


def faster(exact: Found, low: Found) -> str:
    """The faster method by measured time."""
    a, b = exact.seconds(), low.seconds()
    if not exact.certified() or a is None or b is None:
        return "nystrom"
    return "nystrom" if _close(low, exact) and b < a else "exact"


# -- small parts -----------------------------------------------------------------------------------


def _sets() -> list[str]:
    return [name for name in PROBLEMS if name != "mnist10"]


def _cells(name: str) -> list[str]:
    mine = [cell for cell, (which, _) in CELLS.items() if which == name]
    return sorted(mine, key=lambda cell: CELLS[cell][1])


def _curves(runs: Runs) -> dict[str, dict[str, list[tuple[int, float, bool]]]]:
    """(rows, seconds, whether that was the limit) by data set and method."""
    out: dict[str, dict[str, list[tuple[int, float, bool]]]] = {}
    for name in _sets():
        lines: dict[str, list[tuple[int, float, bool]]] = {}
        for method in ("svc", "exact", "nystrom"):
            for cell in _cells(name):
                found = Found(runs, cell, method)
                seconds = found.seconds()
                if seconds is not None:
                    unfinished = method == "exact" and not found.certified()
                    point = (CELLS[cell][1], seconds, found.late or unfinished)
                    lines.setdefault(method, []).append(point)
        out[name] = lines
    return out


def _close(low: Found, exact: Found) -> bool:
    """Whether the low rank costs at most 0.3 points of test error."""
    a, b = low.get("error"), exact.get("error")
    return a is not None and b is not None and a <= b + 0.003


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a / b


def _late(found: Found) -> str:
    return f"> {LIMIT}" if found.late else _figure(found.seconds())


def _percent(found: Found) -> str:
    return _text(found.get("error"), lambda v: f"{100 * v:.2f}")


def _count(value: float | None) -> str:
    return _text(value, lambda v: f"{v:,.0f}")


def _figure(value: float | None) -> str:
    return _text(
        value, lambda v: f"{v:.1e}" if v >= 1e6 else f"{v:.0f}" if v >= 100 else f"{v:.2g}"
    )


def _text(value: float | None, how: Callable[[float], str]) -> str:
    return "–" if value is None else how(value)


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
