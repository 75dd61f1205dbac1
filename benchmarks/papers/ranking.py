"""Ranking, an application that Joachims, Finley and Yu name: our RankSVM beside their program SVM-rank."""

from __future__ import annotations

from benchmarks.common import Bench, Cell, cpu, scratch

# ruff: isort: split
import functools

from benchmarks import ranking
from benchmarks.papers import programs
from benchmarks.papers.record import Figures, Judgment, Row, Today, judged, pick, time_against

#: queries, documents of each, C for the sum over pairs
SIZES = ((200, 88, 0.1), (1000, 50, 0.01))
FEATURES, TOL = 50, 1e-3


def ours(queries: int, documents: int, C: float) -> Cell:
    """RankSVM to a relative gap."""
    from maxmargin import RankSVM

    RankSVM(C=C, max_iter=3).fit(*ranking.synthetic(20, 20, FEATURES))  # loads compiled functions
    data = ranking.synthetic(queries, documents, FEATURES)
    began = cpu()
    svm = RankSVM(C=C, tol=TOL).fit(*data)
    seconds = cpu() - began
    return {
        "seconds": seconds,
        "iterations": svm.n_iter_,
        "F": svm.objective_,
        "finished": svm.converged_,
    }


def theirs(queries: int, documents: int, C: float) -> Cell:
    """SVM-rank with its default epsilon; its C is for the mean over queries. F is the one it prints."""
    from sklearn.datasets import dump_svmlight_file

    X, y, groups = ranking.synthetic(queries, documents, FEATURES)
    with scratch() as folder:
        rows = folder / "rows"
        dump_svmlight_file(X, y, str(rows), zero_based=False, query_id=groups + 1)
        found, _ = programs.run("ranking", rows, ["-c", repr(C * queries), "-e", "0.001"])
    if "calls" not in found:
        return {"seconds": found["seconds"], "finished": False, "sources": ""}
    keep = {"seconds": found["seconds"], "F": found["primal"], "finished": True, "sources": ""}
    return {**keep, "iterations": int(found["iterations"])}


def measure(bench: Bench) -> Figures:
    """Both on generated queries."""
    work = {"RankSVM": ours} | ({} if programs.path("ranking") is None else {"SVM-rank": theirs})
    out: Figures = []
    for queries, documents, C in ((20, 20, 0.1),) if bench.quick else SIZES:
        for name, one in work.items():
            size = f"{queries} x {documents}"
            c = bench.inline(
                f"ranking {size} {name}", functools.partial(one, queries, documents, C)
            )
            keep = ("F", "iterations", "seconds", "finished")
            out.append(
                {"queries x documents": size, "program": name, **{k: c.get(k) for k in keep}}
            )
    return out


def judge(figures: Figures) -> Judgment:
    """Equal objectives up to one percent, and the time of both."""
    texts, better, apart = [], [], 0.0
    for size in dict.fromkeys(f["queries x documents"] for f in figures):
        own, *others = pick(figures, **{"queries x documents": size})
        texts.append(f"{size} documents: {own['seconds']:.2g} s, F = {own['F']:.5g}")
        for other in others:
            cut = "" if other["finished"] else "at least "
            texts[-1] += f" against {cut}{other['seconds']:.2g} s"
            if other["finished"]:
                texts[-1] += f", F = {other['F']:.5g} (SVM-rank)"
                apart = max(apart, own["F"] / other["F"] - 1.0)
            better.append(f"{time_against(own['seconds'], other['seconds'])} SVM-rank ({size})")
    size = figures[-1]["queries x documents"]
    if not better:
        why = "RankSVM trains to its certified gap. SVM-rank was not there to compare."
        return judged(True, "; ".join(texts), why, size)
    above = f"at most {100 * apart:.2g} % above" if apart > 0 else "not above"
    why = f"RankSVM's objective is {above} SVM-rank's; it takes "
    why += f"{', '.join(better)}."
    less, more = (all(b.startswith(k) for b in better) for k in ("less", "more"))
    today: Today = "better" if less else "worse" if more else "same"
    return judged(apart <= 0.01, "; ".join(texts), why, size, today=today)


def rows() -> list[Row]:
    """The only row."""
    setup = (
        f"generated queries, {FEATURES} features, 5 levels of relevance, loss in pairs; RankSVM to a "
        f"relative gap of {TOL:g}, SVM-rank with its default epsilon"
    )
    return [Row("jfy-ranking", measure, judge, setup)]
