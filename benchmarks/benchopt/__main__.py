"""Run our solvers in benchmarks of benchopt beside theirs, and draw objectives over time.

    python -m benchmarks.benchopt CLONE    # measure in a clone of one of the three repositories
    python -m benchmarks.benchopt          # tables and docs/_static/benchopt.png, of what was measured

The clones are of benchopt/benchmark_linear_svm_binary_classif_no_intercept (with benchopt 1.3),
benchopt/benchmark_quantile_regression and benchopt/benchmark_logreg_l2 (with benchopt 1.7), in folders that
end with the names of the files in solvers/. benchopt reports wall time; here it gets CPU time, because other
work shares the machine.
"""

from __future__ import annotations

import csv
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import common

HERE = Path(__file__).resolve().parent
STATIC = HERE.parents[1] / "docs" / "_static"
#: by benchmark: a title, and the arguments of `benchopt run`
BENCHMARKS = {
    "linear_svm_binary_classif_no_intercept": (
        "Linear SVM, hinge loss",
        "-d Simulated -d a9a -s maxmargin -s sklearn -s CD -s L-BFGS-B",
    ),
    "quantile_regression": (
        "Quantile regression with an L1 penalty",
        "-d Simulated[rho=0] -s maxmargin -s scipy-linprog[solver=[highs,highs-ds,highs-ipm]] "
        "-o *[reg=0.1,quantile=0.8,fit_intercept=True]",
    ),
    "logreg_l2": (
        "Logistic regression",
        "-d Simulated[n_samples=200,n_features=500] -d Simulated[n_samples=1000,n_features=10] -d a9a "
        "-s maxmargin -s sklearn[solver=[liblinear,newton-cholesky,lbfgs]] -s cd[newton_step=True]",
    ),
}
#: relative distances to the best objective that any solver found
PRECISIONS = (1e-2, 1e-4, 1e-6)
HEAD = """
Made by `python -m benchmarks.benchopt`: CPU seconds of one thread until F is within a relative distance
of the best F that any solver found; "–" is a solver that did not get there in 60 runs or 40 seconds. One
run each, on a machine that other work shared: ratios under 1.5 are ties. Each point of a solver is a fit
from zero. scikit-learn 1.9, benchopt 1.3 (first table) and 1.7. The penalty of the second benchmark is L1,
which maxmargin does not have: its solver is a sequence of fits.
"""
STYLE = {"maxmargin": {"color": "tab:red", "linewidth": 2.2}}


def measure(clone: Path) -> None:
    """Run one benchmark, and write what it found."""
    time.perf_counter = time.process_time  # before benchopt is imported
    import pandas as pd
    from benchopt.cli import benchopt

    (name,) = (name for name in BENCHMARKS if clone.name.endswith(name))
    (clone / "solvers" / "maxmargin.py").write_text((HERE / "solvers" / f"{name}.py").read_text())
    (clone / "datasets" / "a9a.py").write_text((HERE / "datasets" / "a9a.py").read_text())
    theirs = clone / "solvers" / "scipy-linprog.py"
    if theirs.exists():  # benchopt 1.6 has renamed this, and would take iterations for tolerances
        text = theirs.read_text().replace("    stop_strategy =", "    sampling_strategy =")
        theirs.write_text(text)
    shutil.rmtree(
        clone / "__cache__", ignore_errors=True
    )  # or solvers are asked for what they did not fit
    options = "-n 60 -r 1 --timeout 40 --no-plot --no-html --output maxmargin"
    arguments = ["run", str(clone), *BENCHMARKS[name][1].split(), *options.split()]
    benchopt(arguments, standalone_mode=False)
    newest = max(clone.glob("outputs/*.parquet"), key=lambda path: path.stat().st_mtime)
    runs = pd.read_parquet(newest)
    keys = ["data_name", "objective_name", "solver_name", "stop_val"]
    curves = runs.groupby(keys)[["time", "objective_value"]].min().reset_index()
    best = runs.groupby(keys[:2])["objective_value"].min()
    rows = []
    for problem, runs_of_solver in curves.groupby(keys[:3]):
        lowest = float("inf")
        for _, run in runs_of_solver.sort_values("time").iterrows():
            excess = run["objective_value"] / best[problem[:2]] - 1
            if excess < 0.7 * lowest and lowest > 1e-9:  # what can be seen in a figure
                lowest = excess
                number = {"seconds": f"{run['time']:.3g}", "excess": f"{max(excess, 0):.2g}"}
                rows.append(
                    dict(zip(("data", "objective", "solver"), problem, strict=True)) | number
                )
    common._write_csv(common.HERE / "results" / f"benchopt_{name}.csv", rows)


def read(name: str) -> dict[tuple[str, str], dict[str, list[tuple[float, float]]]]:
    """By problem and solver: seconds and relative distances to the best objective."""
    problems: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    with open(common.HERE / "results" / f"benchopt_{name}.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            curves = problems.setdefault((row["data"], row["objective"]), {})
            point = float(row["seconds"]), float(row["excess"])
            curves.setdefault(row["solver"], []).append(point)
    return problems


def short(text: str) -> str:
    """A name of benchopt without what all have in common."""
    name, _, rest = text.partition("[")
    words = [word.removeprefix("solver=") for word in rest.rstrip("]").split(",")]
    kept = [word for word in words if word and not word.startswith(("random_state", "rho"))]
    return ", ".join([*([] if name == "Simulated" else [name]), *kept])


def table(name: str) -> list[dict[str, Any]]:
    """CPU seconds of each solver up to each precision."""
    rows = []
    for (data, objective), curves in read(name).items():
        for solver, points in sorted(curves.items(), key=lambda item: item[0] != "maxmargin"):
            row: dict[str, Any] = {"data": short(data), "objective": short(objective)}
            row["solver"] = short(solver)
            for precision in PRECISIONS:
                reached = [seconds for seconds, excess in points if excess <= precision]
                row[f"to {precision:.0e}"] = min(reached, default=None)
            rows.append(row)
    return rows


def draw() -> None:
    """One row of panels per benchmark, one panel per problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = [(title, read(name)) for name, (title, _) in BENCHMARKS.items()]
    columns = max(len(problems) for _, problems in found)
    figure, axes = plt.subplots(
        len(found), columns, figsize=(3.2 * columns, 9), layout="constrained", squeeze=False
    )
    for row, (title, problems) in zip(axes, found, strict=True):
        row[0].set_ylabel(f"{title}\n\nF / F* − 1")
        solvers = sorted(
            {solver for curves in problems.values() for solver in curves} - {"maxmargin"}
        )
        colors = dict(zip(solvers, plt.get_cmap("Dark2").colors, strict=False))
        for axis, (problem, curves) in zip(row, problems.items(), strict=False):
            for solver in [*solvers, "maxmargin"]:
                points = curves.get(solver, [])
                style = {"color": colors.get(solver), **STYLE.get(solver, {})}
                seconds = [max(point[0], 1e-5) for point in points]
                excess = [max(point[1], 1e-10) for point in points]
                axis.loglog(seconds, excess, ".-", label=short(solver), **style)
            what = [
                part for part in (short(problem[0]), short(problem[1]).rpartition(") ")[2]) if part
            ]
            axis.set(title="\n".join(what), ylim=(1e-8, 10), xlabel="CPU seconds")
            axis.title.set_fontsize(8)
        for axis in row[len(problems) :]:
            axis.axis("off")
        handles, labels = row[0].get_legend_handles_labels()
        row[0].legend(handles, labels, fontsize=7)
    figure.savefig(STATIC / "benchopt.png", dpi=80)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        measure(Path(sys.argv[1]).resolve())
    else:
        draw()
        lines = ["# Beside the solvers of benchopt", "", HEAD.strip()]
        for name, (title, _) in BENCHMARKS.items():
            lines += ["", f"## {title}", "", *common.markdown(table(name))]
        (common.HERE / "results" / "benchopt.md").write_text("\n".join(lines) + "\n")
        print("\n".join(lines))
