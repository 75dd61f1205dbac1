"""The table of the cutting-plane paper on chains: 1-slack, its cache, the line search, n-slack, and the
default.

SequenceTagger on CoNLL-2000 (8,936 sentences) and 10,000 sentences of Brown's training split, with C tuned by
``benchmarks.sequence``, to a certified gap of 0.1, at most 300 passes and 90 CPU seconds.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, peak_memory_gb

# ruff: isort: split
from typing import Any

from benchmarks import sequence
from benchmarks.problems import Watch

TITLE = "Solvers for structures"
SETS = {"conll2000": 8936, "brown": 10_000}
TOL, PASSES, LIMIT = 1e-1, 300, 90.0
#: used if the tuning of benchmarks.sequence has not been run
DEFAULT_C = {"conll2000": 0.1, "brown": 0.1}
METHODS = {
    "1-slack": "CuttingPlane(use_cache=False, line_search=False)",
    "1-slack + cache": "CuttingPlane(use_cache=True, line_search=False)",
    "OCA on the cached model": "CuttingPlane()",
    "n-slack": 'DualCoordinate(batch_size="all")',
    "default": "DualCoordinate()",
}


def solver(name: str) -> Any:
    """The solver object."""
    from maxmargin.solvers import CuttingPlane, DualCoordinate

    return {
        "1-slack": CuttingPlane(use_cache=False, line_search=False),
        "1-slack + cache": CuttingPlane(use_cache=True, line_search=False),
        "OCA on the cached model": CuttingPlane(),
        "n-slack": DualCoordinate(batch_size="all"),
        "default": DualCoordinate(),
    }[name]


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit."""
    from maxmargin import SequenceTagger

    train, test = sequence.split(spec["set"], "full", bench.quick)
    data = sequence.Matrices(train[: SETS[spec["set"]]], test)
    some = data.lengths[:20]
    SequenceTagger(C=0.1, tol=0.1, max_iter=20, solver=solver(spec["method"])).fit(
        data.X[: sum(some)], data.y[: sum(some)], lengths=some
    )
    watch = Watch(5.0 if bench.quick else LIMIT, PASSES)
    tagger = SequenceTagger(C=spec["C"], tol=TOL, solver=solver(spec["method"]), callbacks=[watch])
    began = cpu()
    tagger.fit(data.X, data.y, lengths=data.lengths)
    seconds = cpu() - began
    memory, last = peak_memory_gb(), tagger.history_[-1]
    stop = tagger.stop_reason_
    if stop == "callback":
        stop = "300 passes" if last["oracle_calls"] >= PASSES else "CPU limit"
    return {
        "C": spec["C"],
        "gap": tagger.gap_,
        "passes": last["oracle_calls"],
        "iterations": tagger.n_iter_,
        "seconds": seconds,
        "split": {
            k: sum(r[f"seconds_{k}"] for r in tagger.history_)
            for k in ("oracle", "plane", "line_search", "qp")
        },
        "support": last["n_active"],
        "objective": tagger.objective_,
        "accuracy": tagger.score(data.X_test, data.y_test, lengths=data.lengths_test),
        "stop": stop,
        "memory_gb": memory,
        "trace": watch.thin(),
    }


def chosen_C(bench: Bench, name: str) -> float:
    """C tuned by ``benchmarks.sequence``, if it was run."""
    tuned = Bench("sequence", quick=bench.quick).get(f"tune {name} maxmargin")
    return float(sequence.best(tuned["fits"])["C"]) if tuned else DEFAULT_C[name]


def table(bench: Bench) -> None:
    """All fits."""
    for name in SETS:
        C = chosen_C(bench, name)
        for method in reversed(METHODS):
            bench.run(f"{name} {method}", {"set": name, "method": method, "C": C})
            report(bench)
    plot(bench)


def report(bench: Bench) -> None:
    """Table from the finished cells."""
    rows = []
    for name in SETS:
        for method in METHODS:
            c = bench.get(f"{name} {method}")
            if c:
                rows.append(_row(name, method, c))
    called = "\n".join(f"- **{m}**: `{code}`" for m, code in METHODS.items())
    notes = f"""
Stops: gap {TOL:g}, {PASSES} passes, or {LIMIT:.0f} CPU seconds (checked once per iteration).
*oracle calls* are per sentence. *oracle*, *plane*, *line search* and *QP* split the time of the solver
in percent: for the dual coordinate solvers a streaming pass (oracle and steps together)
counts as oracle, sweeps over cached planes as QP; for the cached model its evaluations count as
line search. *support vectors* are planes with a positive dual variable: cuts for cutting planes,
labelings of single sentences for the last two.

{called}

![gap against CPU time and oracle calls](solvers.png)
"""
    planned = len(SETS) * len(METHODS)
    notes = f"{len(rows)} of {planned} planned fits were measured.\n" + notes
    bench.save(TITLE, [("gap", f"To a certified gap of {TOL:g}", rows, notes)])


def _row(name: str, method: str, c: Cell) -> Row:
    whole = sum(c["split"].values())
    return {
        "set": name,
        "C": f"{c['C']:g}",
        "solver": method,
        "gap": c["gap"],
        "stop": c["stop"],
        "oracle calls": f"{c['passes']:.1f}",
        "CPU s": c["seconds"],
        **{f"{k.replace('_', ' ')} %": round(100 * v / whole) for k, v in c["split"].items()},
        "support vectors": c["support"],
        "objective": f"{c['objective']:.6g}",
        "test accuracy %": f"{100 * c['accuracy']:.2f}",
        "memory GB": c["memory_gb"],
    }


def plot(bench: Bench) -> None:
    """Relative gap against CPU time and oracle calls."""
    import matplotlib.pyplot as plt

    names = [s for s in SETS if any(bench.get(f"{s} {m}") for m in METHODS)]
    shape = {"figsize": (9, 3 * len(names)), "sharey": True, "squeeze": False}
    figure, axes = plt.subplots(len(names), 2, **shape)
    for row, name in zip(axes, names, strict=True):
        for method in METHODS:
            c = bench.get(f"{name} {method}")
            if not c:
                continue
            # bounds are the best so far, so the gap decreases; there is none before the first full pass
            trace = [r for r in c["trace"] if None not in r]
            gaps = [(r[2] - r[3]) / r[2] for r in trace]
            for axis, column in zip(row, (0, 1), strict=True):
                axis.plot([r[column] for r in trace], gaps, ".-", ms=3, lw=1, label=method)
        for axis, what in zip(row, ("CPU seconds", "oracle calls per sentence"), strict=True):
            axis.axhline(TOL, color="grey", lw=0.8)
            axis.set(xscale="log", yscale="log", xlabel=what)
            axis.set_title(name, fontsize=9)
        row[0].set_ylabel("certified relative gap")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(bench.folder / "solvers.png", dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    command_line("solvers", TITLE, cell, table)
