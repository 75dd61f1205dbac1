"""Table 2 of Joachims, Finley and Yu: two classes, 1-slack against decomposition methods."""

from __future__ import annotations

from benchmarks.common import Bench, Cell, cpu

# ruff: isort: split
import functools
from typing import Any

from benchmarks.papers import peers, structured
from benchmarks.papers.oca import SETS, load, rows_of, sets, size, there
from benchmarks.papers.record import TIE, Figures, Judgment, Row, beside, judged, pick, words
from benchmarks.problems import Watch

#: the paper's epsilon, of the mean risk
EPSILON = 1e-3
OTHERS = ("LIBSVM", "LIBSVM, program", "SVM-light")


def one_slack(name: str, n: int, *, default: bool = False) -> Cell:
    """Plain cutting planes, or today's default, until the mean risk is known up to epsilon."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import RiskEpsilon

    problem, C = load(name, n), SETS[name][1] / n
    how = "auto" if default else structured.solver("1-slack")
    fixed: dict[str, Any] = {"fit_intercept": False, "solver": how, "tol": RiskEpsilon(n * EPSILON)}
    fixed |= problem.kind
    few = problem.some()  # loads the compiled functions
    LinearSVC(C=C * n / few.n, max_iter=5, **fixed).fit(few.X, few.y)
    watch = Watch(peers.LIMIT)
    svc = LinearSVC(C=C, callbacks=[watch], **fixed)
    watch.began = began = cpu()
    svc.fit(problem.X, problem.y)
    return {
        "seconds": cpu() - began,
        "F": peers.objective(problem, svc.coef_, C),
        "iterations": svc.n_iter_,
        "support": svc.history_[-1]["n_active"],
        "finished": svc.converged_,
    }


def other(name: str, n: int, who: str) -> Cell:
    """A decomposition method with its own stopping rule."""
    found = peers.solve(peers.PEERS[who], load(name, n), SETS[name][1] / n)
    # no sources of the library have a part in this fit
    return {"sources": "", **{k: v for k, v in found.items() if k != "w"}}


def measure(bench: Bench) -> Figures:
    """Both on all sets, beside today's default."""
    out: Figures = []
    for name in sets(bench):
        n = size(name, bench)
        works = {"1-slack": functools.partial(one_slack, name, n)}
        works["LinearSVC"] = functools.partial(one_slack, name, n, default=True)
        works |= {w: functools.partial(other, name, n, w) for w in OTHERS if peers.available(w)}
        for who, work in works.items():
            c = bench.inline(f"table 2 {name} {n} {who}", work)
            keep = ("F", "iterations", "support", "seconds", "finished")
            out.append({"set": name, "rows": n, "program": who, **{k: c.get(k) for k in keep}})
    return out


def judge(figures: Figures) -> Judgment:
    """1-slack clearly faster than every decomposition program, and with fewer support vectors."""
    names = list(dict.fromkeys(f["set"] for f in figures))
    own = {name: pick(figures, set=name, program="1-slack")[0] for name in names}
    texts, fastest, support = [], dict.fromkeys(names, float("inf")), []
    for who in dict.fromkeys(f["program"] for f in figures if f["program"] in OTHERS):
        lines = {f["set"]: f for f in pick(figures, program=who)}
        ratios = {name: f["seconds"] / own[name]["seconds"] for name, f in lines.items()}
        fastest = {name: min(fastest[name], ratios[name]) for name in names}
        shown = [("" if lines[k]["finished"] else "> ") + f"{r:.2g}" for k, r in ratios.items()]
        texts.append(f"{who} takes {words(shown, 's')} times as long")
        support += [(own[k]["support"], f["support"]) for k, f in lines.items() if f["support"]]
    fewer = all(a < b for a, b in support)
    faster = [name for name in names if fastest[name] > TIE]
    figure = f"{'; '.join(texts)}, on {words(names, 's')}; support vectors "
    figure += ", ".join(
        f"{own[k]['support']} against {pick(figures, set=k, program=OTHERS[0])[0]['support']:,}"
        for k in names
    )
    why = (
        f"Support vectors {'hold' if fewer else 'do not hold'}; 1-slack is clearly faster than every "
        f"decomposition program on {len(faster)} of {len(names)} sets. Programs: {there(figures)}."
    )
    default, paper = (
        sum(f["seconds"] for f in pick(figures, program=p)) for p in ("LinearSVC", "1-slack")
    )
    good = fewer and len(faster) == len(names)
    return judged(good, figure, why, rows_of(figures), far=True, today=beside(default, paper))


def rows() -> list[Row]:
    """The only row."""
    data = ", ".join(f"{name} ({n:,} rows, C on the mean {C:g})" for name, (n, C) in SETS.items())
    data += f"; no intercept; 1-slack and LinearSVC until the mean risk is known up to {EPSILON:g}; the "
    data += "others with their own rule, whose tolerance is 0.001; LIBSVM has an intercept; programs read "
    data += "a file"
    return [Row("jfy-table-2", measure, judge, data)]
