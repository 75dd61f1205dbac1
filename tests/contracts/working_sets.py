"""Check constraint caches and working sets, the state that solvers keep for examples."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.examples import ConstraintCache, Examples
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.vectors import Array
from maxmargin.testing.checks._common import (
    require,
    require_at_least,
    require_close,
    require_same_vector,
    size_of,
)
from maxmargin.testing.reference import dense

#: the planes, offsets and examples of all outputs (``tests.reference_optima.problems.terms_of``)
Terms = tuple[Any, Any, Any]
#: sweeps after which the working sets of a few small examples must be close to the optimum
MAX_SWEEPS = 1000


def check_sets(
    examples: Examples, terms: Terms, kind: OracleKind = "exact", random_state: int = 0
) -> None:
    """Check the constraint cache and the working sets of packed examples, whose outputs are all listed."""
    planes, offsets, owner = terms

    def objective(w: Array, caps: Array) -> float:
        worst = np.zeros(len(caps))
        np.maximum.at(worst, owner, planes @ w + offsets)
        return 0.5 * float(w @ w) + float(caps @ worst)

    rng = np.random.default_rng(random_state)
    check_cache(examples, examples.dim, rng)
    check_working_sets(examples, objective, examples.dim, kind, rng)


def check_cache(examples: Examples, dim: int, rng: np.random.Generator) -> None:
    """Check that a constraint cache holds the most recently used answers, at most ``size`` per example."""
    n = len(examples)
    lo, hi, size = (1, n, 2) if n > 1 else (0, n, 2)
    m = hi - lo
    cache = examples.cache(lo, hi, size)
    require(
        np.array_equal(cache.pointers, np.zeros(m + 1)),
        f"an empty cache must have {m + 1} pointers, all 0, got {cache.pointers!r}",
    )
    probes = rng.normal(size=(3, dim))
    held: list[list[tuple[float, ...]]] = [[] for _ in range(m)]  # oldest first
    for round_ in range(6):
        w = rng.normal(size=dim) * 3.0
        answers = examples.oracle(w, lo, hi)
        cache.insert(answers)
        prints = _prints_of_answers(examples, answers, probes)
        for k in range(m):
            if prints[k] is None:  # the true output is not stored
                continue
            held[k] = [p for p in held[k] if not _alike(p, prints[k])] + [prints[k]]
            held[k] = held[k][-size:]
        where = f"cache after {round_ + 1} inserts"
        _compare_entries(cache, held, probes, lo, where)
        cache.insert(answers)
        _compare_entries(cache, held, probes, lo, f"{where}, with the last one repeated")
        _check_scores(cache, answers, w, rng, where)
        # use the oldest entry of each example: it must now outlive the others
        _touch_oldest(cache, held, probes)


def _prints_of_answers(examples: Examples, answers: Answers, probes: Array) -> list[Any]:
    """The values of each labeling at a few random points, which identify it."""
    prints: list[Any] = []
    for row in np.eye(answers.hi - answers.lo):
        cut = examples.cut(answers, row)
        truth = cut.offset == 0.0 and not dense(cut.plane).any()
        prints.append(None if truth else tuple(cut.at(p) for p in probes))
    return prints


def _alike(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9))


def _entries(cache: ConstraintCache, probes: Array) -> list[list[tuple[int, tuple[float, ...]]]]:
    pointers = np.asarray(cache.pointers)
    scores = np.array([cache.scores(p) for p in probes])
    require(
        scores.shape == (len(probes), pointers[-1]),
        f"cache.scores must return one value per entry ({pointers[-1]}), got shape {scores.shape[1:]}",
    )
    return [
        [(j, tuple(scores[:, j].tolist())) for j in range(pointers[k], pointers[k + 1])]
        for k in range(len(pointers) - 1)
    ]


def _compare_entries(
    cache: ConstraintCache,
    held: list[list[tuple[float, ...]]],
    probes: Array,
    lo: int,
    where: str,
) -> None:
    for k, (entries, expected) in enumerate(zip(_entries(cache, probes), held, strict=True)):
        what = f"{where}, example {lo + k}"
        require(
            len(entries) == len(expected),
            f"{what}: {len(entries)} entries are held, expected {len(expected)}",
        )
        for wanted in expected:
            require(
                any(_alike(found, wanted) for _, found in entries),
                f"{what}: a labeling used more recently than others is missing, or its value changed",
            )


def _check_scores(
    cache: ConstraintCache, answers: Answers, w: Array, rng: np.random.Generator, where: str
) -> None:
    pointers, scores = np.asarray(cache.pointers), cache.scores(w)
    m = len(pointers) - 1
    chosen = np.full(m, -1, dtype=np.int64)
    for k in range(m):
        part = scores[pointers[k] : pointers[k + 1]]
        best = float(part.max(initial=0.0))
        require_at_least(
            best, float(answers.values[k]), f"{where}: the value of the newest answer is missing"
        )
        if len(part) and best > 0.0:
            chosen[k] = pointers[k] + int(part.argmax())
    weights = rng.random(m)
    cut = cache.cut(chosen, weights)
    expected = sum(
        float(s) * float(scores[j]) for s, j in zip(weights, chosen, strict=True) if j >= 0
    )
    require_close(
        cut.at(w), expected, f"{where}: the cut against the chosen scores", size_of(cut, w)
    )
    nothing = cache.cut(np.full(m, -1, dtype=np.int64), weights)
    require(
        nothing.offset == 0.0 and not dense(nothing.plane).any(),
        f"{where}: the cut of the true outputs must be 0",
    )


def _touch_oldest(
    cache: ConstraintCache, held: list[list[tuple[float, ...]]], probes: Array
) -> None:
    chosen = np.full(len(held), -1, dtype=np.int64)
    for k, entries in enumerate(_entries(cache, probes)):
        if held[k]:
            chosen[k] = next(j for j, found in entries if _alike(found, held[k][0]))
            held[k].append(held[k].pop(0))
    cache.touch(chosen)


def check_working_sets(
    examples: Examples,
    objective: Callable[[Array, Array], float],
    dim: int,
    kind: OracleKind,
    rng: np.random.Generator,
) -> None:
    """Check that sweeps increase the dual value, keep it below the objective, and reach the optimum."""
    n = len(examples)
    idle = examples.working_sets(np.zeros(n))
    stats = idle.stream(np.arange(n), -np.inf)
    require(
        stats.oracle_calls == 0 and not idle.w.any(),
        "working_sets: examples with cap 0 must never be visited",
    )
    caps = rng.uniform(0.5, 2.0, n)
    caps[rng.random(n) < 0.2] = 0.0
    caps[0] = 1.0
    sets = examples.working_sets(caps)
    _check_fresh(sets, dim, n)
    _check_climb(sets, examples, objective, caps, kind, rng)
    _check_housekeeping(sets, rng)
    _check_absorb(examples, caps, rng)


def _check_absorb(examples: Examples, caps: Array, rng: np.random.Generator) -> None:
    """Check ``begin`` and ``absorb``: a few answers at a time, computed at the same ``w``."""
    sets = examples.working_sets(caps)
    lower = 0.0
    for _ in range(2):
        order = rng.permutation(len(examples))
        due = np.asarray(sets.begin(order, -np.inf))
        require(
            due.tolist() == [i for i in order if caps[i] > 0.0],
            "begin must return the examples with positive cap and a large enough gap, in the given order",
        )
        for k in range(0, len(due), 3):
            w = sets.w.copy()
            stats = sets.absorb([examples.oracle(w, int(i), int(i) + 1) for i in due[k : k + 3]])
            asked = len(due[k : k + 3])
            require(
                stats.oracle_calls == asked,
                f"absorb got {asked} answers but reports {stats.oracle_calls} oracle calls",
            )
            moved = sets.w.copy()
            value = sets.dual_value()
            require_at_least(value, lower, "absorb decreased the dual value", abs(value))
            require_same_vector(sets.w, moved, "w after absorb against the recomputed w")
            lower = value
        gaps = np.asarray(sets.gaps)
        require(
            gaps.shape == caps.shape and bool(np.isfinite(gaps).all() and (gaps >= -1e-9).all()),
            "gaps must be finite and nonnegative after every example was visited",
        )
    require(
        len(sets.begin(np.arange(len(examples)), np.inf)) == 0,
        "begin with skip_below=inf must return no examples whose gaps are known",
    )


def _check_fresh(sets: WorkingSets, dim: int, n: int) -> None:
    require(
        sets.w.shape == (dim,) and not sets.w.any() and sets.dual_value() == 0.0,
        "new working sets: w and the dual value must be 0",
    )
    counts = (sets.n_examples, sets.n_planes, sets.n_support)
    require(counts == (n, 0, 0), f"new working sets: counts are {counts}, expected {(n, 0, 0)}")


def _check_climb(
    sets: WorkingSets,
    examples: Examples,
    objective: Callable[[Array, Array], float],
    caps: Array,
    kind: OracleKind,
    rng: np.random.Generator,
) -> None:
    n = len(examples)
    lower, first = 0.0, objective(np.zeros(examples.dim), caps)
    gap = np.inf
    for sweep in range(MAX_SWEEPS):
        order = rng.permutation(n)
        stats = sets.stream(order, -np.inf) if sweep % 3 == 0 else sets.epoch(order)
        if sweep % 3 != 0:
            require(
                stats.oracle_calls == 0 and stats.new_planes == 0,
                f"epoch must not call the argmax, but it reports {stats}",
            )
        elif sweep == 0:
            visited = int((caps > 0.0).sum())
            require(
                stats.oracle_calls == visited,
                f"stream over all examples made {stats.oracle_calls} oracle calls, expected {visited}",
            )
        moved = sets.w.copy()
        value = sets.dual_value()
        require_at_least(value, lower, f"sweep {sweep} decreased the dual value", first)
        require_same_vector(sets.w, moved, f"w after sweep {sweep} against the recomputed w")
        lower = value
        if sweep % 10 == 9 or first == 0.0:
            w = sets.w.copy()
            upper = objective(w, caps)
            require_at_least(upper, lower, "the dual value is above the objective", first)
            gap = (upper - lower) / max(upper, 1e-12)
            if gap <= 1e-4:
                break
    if kind == "exact":
        require(
            gap <= 1e-4, f"not optimal: the relative gap after {MAX_SWEEPS} sweeps is {gap:.2e}"
        )
    w = sets.w.copy()
    half = max(1, n // 2)
    ranges = [(0, half), (half, n)] if half < n else [(0, n)]
    value, upper = sets.confirm([examples.oracle(w, lo, hi) for lo, hi in ranges])
    require_at_least(upper, value, "confirm: upper is below value")
    if kind == "exact":
        expected = objective(w, caps) - 0.5 * float(w @ w)
        require_close(value, expected, "confirm: value against C R(w) by the Python methods", first)
    require_close(sets.dual_value(), lower, "confirm changed the dual value", first)


def _check_housekeeping(sets: WorkingSets, rng: np.random.Generator) -> None:
    n = sets.n_examples
    require(sets.n_support <= sets.n_planes, "n_support must not exceed n_planes")
    value, support = sets.dual_value(), sets.n_support
    stats = sets.stream(rng.permutation(n), np.inf)
    require(
        stats.oracle_calls == 0,
        f"stream with skip_below=inf made {stats.oracle_calls} oracle calls although all gaps are known",
    )
    sets.drop_idle(0)
    require_close(sets.dual_value(), value, "drop_idle changed the dual value")
    require(
        sets.n_support == support and sets.n_planes >= support,
        f"drop_idle removed planes in use: {support} before, {sets.n_support} after",
    )
    state = sets.state()
    require(isinstance(state, dict), f"state must return a dict, got {type(state).__name__}")
    pickle.dumps(state)
