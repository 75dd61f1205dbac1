"""Tables 4 and 8 of Franc and Sonnenburg: training over a whole range of C."""

from __future__ import annotations

from benchmarks.common import Bench, Cell, cpu

# ruff: isort: split
import functools
import math

import numpy as np

from benchmarks.papers import packages, peers
from benchmarks.papers.oca import OF_THE_PAPER, load, rows_of, warm
from benchmarks.papers.record import TIE, Figures, Judgment, Row, beside, judged, pick, words
from benchmarks.problems import Problem, Watch

#: CPU seconds that one fit of a range may take
LIMIT = 15.0
#: every program of Table 4, in the order of the page
TABLE_4 = ("OCA", "CPA", "LinearSVC", "LIBOCAS", "LIBLINEAR", "SVM-perf", "skglm")
TABLE_4 += ("SGD", "Vowpal Wabbit")
KEEP = ("iterations", "seconds", "cut off", "error %", "ROC AUC %")


@functools.lru_cache(maxsize=1)
def malware_like(n: int) -> Problem:
    """Counts of words that depend on one of 14 families, unequal in size, as dense rows in [0, 1]."""
    rng = np.random.default_rng(0)
    families, words_ = 14, 3413
    common = rng.dirichlet(np.full(words_, 0.1))
    own = rng.dirichlet(np.full(words_, 0.02), families)
    y = rng.choice(families, n, p=rng.dirichlet(np.full(families, 2.0)))
    share = rng.beta(1.0, 4.0, n)[:, None]  # of words that are the family's own
    X = np.log1p(rng.poisson(400 * ((1 - share) * common + share * own[y])).astype(float))
    problem = Problem(X / X.max(), y, families)
    warm(problem)
    return problem


def split(name: str, n: int) -> tuple[Problem, Problem]:
    """n rows to train and n to test."""
    problem = malware_like(2 * n) if name == "malware-like" else load(name, 2 * n)
    order = np.random.default_rng(1).permutation(problem.n)
    return problem.rows(order[:n]), problem.rows(order[n:])


def own_range(name: str, n: int, line_search: bool, Cs: tuple[float, ...], tol: float) -> Cell:
    """OCA or CPA over a range of C, each fit from scratch; the least error on other rows."""
    from sklearn.metrics import roc_auc_score

    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane

    train, test = split(name, n)
    seconds, its, errors, areas, cut = 0.0, 0, [], [], 0
    for C in Cs:
        how, watch = CuttingPlane(line_search=line_search), Watch(LIMIT)
        svc = LinearSVC(C / n, tol=tol, fit_intercept=False, solver=how, callbacks=[watch])
        began = cpu()
        svc.fit(train.X, train.y)
        seconds += cpu() - began
        its, cut = its + svc.n_iter_, cut + (not svc.converged_)
        errors.append(100 * (1 - svc.score(test.X, test.y)))
        if train.n_classes == 2:
            areas.append(100 * roc_auc_score(test.y, svc.decision_function(test.X)))
    out = {"iterations": its, "seconds": seconds, "cut off": cut, "error %": min(errors)}
    return {**out, "ROC AUC %": max(areas, default=None)}


def peer_range(name: str, n: int, who: str, Cs: tuple[float, ...]) -> Cell:
    """The same by a competitor, two classes."""
    from sklearn.metrics import roc_auc_score

    train, test = split(name, n)
    seconds, errors, areas, cut = 0.0, [], [], 0
    for C in Cs:
        found = peers.PEERS[who](train, C / n)
        seconds, cut = seconds + found["seconds"], cut + (not found["finished"])
        if "w" not in found:  # stopped: a larger C takes longer still
            break
        scores = test.X @ found["w"]
        errors.append(100 * float(np.mean(np.sign(scores) != np.sign(test.y))))
        areas.append(100 * roc_auc_score(test.y, scores))
    out: Cell = {"iterations": None, "seconds": seconds, "cut off": cut}
    return {**out, "error %": min(errors, default=None), "ROC AUC %": max(areas, default=None)}


def ranges(
    sizes: dict[str, int], methods: tuple[str, ...], Cs: tuple[float, ...], tol: float, bench: Bench
) -> Figures:
    """Several programs over a range of C on several sets."""
    out: Figures = []
    for name, rows in list(sizes.items())[: 1 if bench.quick else None]:
        n = 150 if bench.quick else rows
        some = Cs[:3] if bench.quick else Cs
        for who in methods:
            if not peers.available(who):
                continue
            work = functools.partial(peer_range, name, n, who, some)
            if who in ("OCA", "CPA"):
                work = functools.partial(own_range, name, n, who == "OCA", some, tol)
            c = bench.inline(f"range {name} {n} {who} {tol:g} to {some[-1]:g}", work)
            out.append({"set": name, "rows": n, "method": who, **{k: c[k] for k in KEEP}})
    return out


def against_plain(figures: Figures) -> tuple[str, list[float]]:
    """OCA against CPA in words, and how many times as fast it is on each set."""
    texts, speed, apart = [], [], 0.0
    for name in dict.fromkeys(f["set"] for f in figures):
        own, plain = (pick(figures, set=name, method=m)[0] for m in ("OCA", "CPA"))
        speed.append(plain["seconds"] / own["seconds"])
        apart = max(apart, abs(own["error %"] - plain["error %"]))
        sign = "at least " if plain["cut off"] else ""
        its = plain["iterations"] / own["iterations"]
        texts.append(
            f"{name}: {sign}{speed[-1]:.2g} times faster than CPA, {sign}{its:.2g} times fewer iterations"
        )
    return "; ".join(texts) + f"; least errors differ by {apart:.2g} points", speed


def judge_table_4(figures: Figures) -> Judgment:
    """The seconds of every accurate solver over those of OCA: geometric means over the sets."""
    figure, speed = against_plain(figures)
    ratios: dict[str, list[float]] = {}
    cut = {
        f["method"]
        for f in figures
        if f["error %"] is None or (f["method"] == "skglm" and f["cut off"])
    }
    for f in figures:
        own = pick(figures, set=f["set"], method="OCA")[0]
        if f["method"] != "OCA":
            ratios.setdefault(f["method"], []).append(f["seconds"] / own["seconds"])
    means = {k: float(np.exp(np.mean(np.log(v)))) for k, v in ratios.items()}
    texts = [f"{'> ' if k in cut else ''}{v:.2g} ({k})" for k, v in means.items()]
    figure += f"; seconds over OCA's, geometric means: {', '.join(texts)}{areas(figures)}"
    slow = [k for k in OF_THE_PAPER if means.get(k, math.inf) <= TIE]
    tie = min(speed) <= TIE
    why = f"Over the whole range OCA is {'not clearly ' if slow else ''}faster than "
    why += ", ".join(slow or [k for k in OF_THE_PAPER if k in means]) + " at the same ROC AUC"
    why += "; against CPA it ties on some set." if tie else "."
    faster = [k for k, v in means.items() if v < 1.0 / TIE and k not in peers.PASSES_ONLY]
    why += f" Less time than OCA take {', '.join(faster)}." if faster else ""
    today = beside(means.get("LinearSVC", 1.0), 1.0)
    return judged(not slow, figure, why, rows_of(figures), far=True, today=today)


def areas(figures: Figures) -> str:
    """The best areas under the ROC curve: the least and the largest of all programs."""
    texts = []
    for name in dict.fromkeys(f["set"] for f in figures):
        by = {f["method"]: f["ROC AUC %"] for f in pick(figures, set=name) if f["ROC AUC %"]}
        low, high = min(by, key=by.__getitem__), max(by, key=by.__getitem__)
        texts.append(f"{name} {by[low]:.2f} ({low}) to {by[high]:.2f} ({high})")
    return f"; best ROC AUC in percent: {', '.join(texts)}" if texts else ""


def judge_table_8(figures: Figures) -> Judgment:
    """OCAM is at least three times as fast, as in the paper; or faster; or not."""
    figure, speed = against_plain(figures)
    lost = sum(f["cut off"] for f in pick(figures, method="OCA"))
    if lost:
        figure += f"; {lost} of OCA's own fits were cut off"
    names = list(dict.fromkeys(f["set"] for f in figures))
    few = [n for n, x in zip(names, speed, strict=True) if x < 3.0]
    tie = [n for n, x in zip(names, speed, strict=True) if x <= TIE]
    why = "OCAM is at least three times as fast on every set."
    if few:
        why = f"OCAM is less than three times as fast on {words(few, 's')}"
        why += f", and ties on {words(tie, 's')}, where both need few iterations." if tie else "."
    return judged(not tie, figure, why, rows_of(figures), far=True)


def rows() -> list[Row]:
    """Both tables."""
    wide, narrow = (1.0, 10.0, 100.0, 1e3, 1e4), (1.0, 10.0, 100.0)
    pairs = {"a9a": 5000, "ccat": 5000}
    several = {"mnist-10": 3000, "news20": 3000, "malware-like": 3413}
    sizes = ", ".join(f"{name} ({n:,} rows)" for name, n in several.items())
    return [
        Row(
            "oca-table-4",
            lambda b: ranges(pairs, TABLE_4, wide, 1e-3, b),
            judge_table_4,
            f"5,000 rows, C on the mean 1 to 10,000, relative gap 1e-3, at most {LIMIT:g} CPU seconds a fit "
            "of OCA and CPA; error and ROC AUC on as many other rows; SVM-perf's and Vowpal Wabbit's seconds "
            f"include reading a file; {packages.NOTES}",
        ),
        Row(
            "oca-table-8",
            lambda b: ranges(several, ("OCA", "CPA"), narrow, 1e-2, b),
            judge_table_8,
            f"{sizes}, C on the mean 1 to 100, relative gap 1e-2, at most {LIMIT:g} CPU seconds per fit; "
            "malware-like: generated counts of 3,413 words, 14 families",
        ),
    ]
