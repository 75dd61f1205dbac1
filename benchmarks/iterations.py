"""Number of iterations: it does not grow with the number of samples, and the line search halves it.

(a) ``CuttingPlane()`` on 10^4, 10^5 and 5·10^5 random samples of covertype, C_mean 10^4, gap 1e-3. (b)
Optimized cutting planes (OCA / OCAM: ``CuttingPlane()``) compared to plain ones (CPA: ``line_search=False``),
both with one slack, to gap 1e-3 at the C_mean that is best on held-out data.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import numpy as np

from benchmarks.problems import PROBLEMS, Watch, load, warm

TITLE = "Iterations of cutting planes"
SIZES = (10_000, 100_000, 500_000)
SETS = ("covtype-2", "ccat", "mnist-0-4", "mnist-10")
GRID = (1e1, 1e2, 1e3, 1e4, 1e5)
TOL = 1e-3
#: CPU limits: one fit of the tuning, one fit of the comparison
TUNE_LIMIT, FIT_LIMIT = 20.0, 100.0


def sizes(bench: Bench) -> Cell:
    """Part (a)."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane

    problem = load("covtype-2")
    warm(problem)
    order = np.random.default_rng(0).permutation(problem.n)
    out = {}
    for n in (1000, 3000) if bench.quick else SIZES:
        some = problem.rows(order[:n])
        began = cpu()
        svc = LinearSVC(C=1e4 / n, tol=TOL, solver=CuttingPlane(), loss="hinge").fit(some.X, some.y)
        out[str(n)] = {
            "iterations": svc.n_iter_,
            "gap": svc.gap_,
            "seconds": cpu() - began,
            "F": svc.objective_,
        }
    return out


def compare(name: str, bench: Bench) -> Cell:
    """Part (b) for one set."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane

    problem = load(name, bench.quick)
    warm(problem)
    order = np.random.default_rng(0).permutation(problem.n)
    cut = int(0.8 * problem.n)
    train, held = problem.rows(order[:cut]), problem.rows(order[cut:])
    tuning = {}
    for C_mean in GRID[::2] if bench.quick else GRID:
        watch = Watch(3.0 if bench.quick else TUNE_LIMIT)
        svc = LinearSVC(C=C_mean / train.n, tol=TOL, callbacks=[watch], **problem.kind).fit(
            train.X, train.y
        )
        tuning[f"{C_mean:g}"] = {"accuracy": svc.score(held.X, held.y), "gap": svc.gap_}
    chosen = float(max(tuning, key=lambda k: tuning[k]["accuracy"]))
    out: Cell = {"tuning": tuning, "C_mean": chosen}
    for method, solver in (("OCA", CuttingPlane()), ("CPA", CuttingPlane(line_search=False))):
        watch = Watch(3.0 if bench.quick else FIT_LIMIT)
        svc = LinearSVC(
            C=chosen / problem.n, tol=TOL, solver=solver, callbacks=[watch], **problem.kind
        )
        began = cpu()
        svc.fit(problem.X, problem.y)
        out[method] = {
            "iterations": svc.n_iter_,
            "seconds": cpu() - began,
            "gap": svc.gap_,
            "converged": svc.converged_,
            "trace": watch.thin(300),
        }
    return out


def cell(spec: Cell, bench: Bench) -> Cell:
    """One process."""
    return sizes(bench) if spec["part"] == "a" else compare(spec["set"], bench)


def table(bench: Bench) -> None:
    """Everything."""
    bench.run("sizes", {"part": "a"})
    for name in SETS:
        bench.run(f"compare {name}", {"part": "b", "set": name})
        report(bench)
    plot(bench)


def report(bench: Bench) -> None:
    """Tables from the finished cells."""
    found = bench.get("sizes")
    grown: list[Row] = []
    verdict = ""
    if found:
        parts = {int(n): c for n, c in found.items() if n.isdigit()}
        for n, c in sorted(parts.items()):
            row = {"rows": f"{n:,}", "iterations": c["iterations"], "gap": c["gap"]}
            grown.append({**row, "CPU s": c["seconds"]})
        counts = [c["iterations"] for c in parts.values()]
        holds = max(counts) <= 1.3 * min(counts) + 5
        verdict = (
            f"Claim: largest ≤ 1.3 × smallest + 5. {max(counts)} against "
            f"{1.3 * min(counts) + 5:.1f}: **{'holds' if holds else 'does not hold'}**."
        )
    rows = []
    for name in SETS:
        c = bench.get(f"compare {name}")
        if c:
            rows.append(_row(name, c))
    held = "; ".join(f"{r['set']}: {r['claim']}" for r in rows)
    tuning = [
        {
            "set": name,
            "C_mean": C,
            "held-out accuracy %": f"{100 * t['accuracy']:.2f}",
            "gap": t["gap"],
        }
        for name in SETS
        for C, t in (bench.get(f"compare {name}") or {"tuning": {}})["tuning"].items()
    ]
    bench.save(
        TITLE,
        [
            (
                "rows",
                "(a) Iterations against rows: covertype class 2, C_mean 10^4, gap 1e-3",
                grown,
                verdict,
            ),
            (
                "line_search",
                "(b) OCA against plain CPA to gap 1e-3 at the best C",
                rows,
                f"Claim: OCA needs at most half the iterations. {held}. A fit has at most "
                f"{FIT_LIMIT:.0f} CPU seconds; "
                "“>” marks one that did not reach the gap in them. ![bounds](iterations.png)",
            ),
            (
                "choice_of_C",
                "Choice of C: 80 % of the training rows, accuracy on the other 20 %",
                tuning,
                f"At most {TUNE_LIMIT:.0f} CPU seconds per fit; the gap says what was reached.\n\n"
                + "\n".join(f"- **{s}**: {PROBLEMS[s]}" for s in SETS),
            ),
        ],
    )


def _row(name: str, c: Cell) -> Row:
    oca, cpa = c["OCA"], c["CPA"]
    ratio = cpa["iterations"] / oca["iterations"]
    least = "" if cpa["converged"] else "> "
    if not oca["converged"]:
        claim = "not decided (OCA at its limit)"
    elif ratio >= 2:
        claim = "holds"
    else:
        claim = "does not hold" if cpa["converged"] else "not decided (CPA at its limit)"
    return {
        "set": name,
        "C_mean": f"{c['C_mean']:g}",
        "OCA iterations": ("" if oca["converged"] else "> ") + str(oca["iterations"]),
        "CPA iterations": least + str(cpa["iterations"]),
        "ratio": f"{least}{ratio:.1f}",
        "OCA s": oca["seconds"],
        "CPA s": cpa["seconds"],
        "OCA gap": oca["gap"],
        "CPA gap": cpa["gap"],
        "claim": claim,
    }


def plot(bench: Bench) -> None:
    """Bounds against iterations, OCA and CPA."""
    import matplotlib.pyplot as plt

    names = [s for s in SETS if bench.get(f"compare {s}")]
    figure, axes = plt.subplots(1, len(names), figsize=(3.1 * len(names), 3), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        c = bench.get(f"compare {name}")
        assert c is not None
        for method, color in (("OCA", "tab:blue"), ("CPA", "tab:orange")):
            trace = [row for row in c[method]["trace"] if None not in row]
            passes = [row[1] for row in trace]
            axis.plot(passes, [row[2] for row in trace], color=color, label=f"{method} F")
            lower = [row[3] if row[3] > 0 else np.nan for row in trace]
            axis.plot(passes, lower, color=color, ls="--", label=f"{method} lower")
        end = c["OCA"]["trace"][-1][2]
        axis.set(xscale="log", ylim=(0.5 * end, 1.7 * end), xlabel="passes over the data")
        axis.xaxis.set_minor_formatter("")
        axis.set_title(f"{name}, C_mean {c['C_mean']:g}", fontsize=9)
    axes[0][0].set_ylabel("objective and lower bound")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(bench.folder / "iterations.png", dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    command_line("iterations", TITLE, cell, table)
