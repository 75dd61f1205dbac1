"""One fit of either side in its own process, and the search for LIBLINEAR's tolerance.

A fit runs in a process forked from one that holds the data and has loaded all compiled functions: both sides
read the same arrays. LIBLINEAR cannot be interrupted, so a limit on CPU time kills it. Ours is stopped by a
callback and keeps its bounds.
"""

from __future__ import annotations

from benchmarks.common import Cell, cpu

# ruff: isort: split
import multiprocessing
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from benchmarks.problems import Problem, Watch, warm

#: LIBLINEAR's tolerances, loosest first; the last two are used only if the others do not suffice
LADDER = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
#: start of the search if no neighboring C has been searched
FIRST = LADDER.index(0.1)
NO_LIMIT = 10**8


def in_a_fork(work: Callable[[], Any], seconds: float) -> Any | None:
    """The result of ``work()`` in a forked process; None if it used more than ``seconds`` of CPU time."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def child() -> None:
        limit = int(np.ceil(seconds)) + 1  # whole seconds; later results count as late
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 10))
        send.send(work())
        send.close()
        os._exit(0)  # skip cleanup: the resources belong to the parent

    process = context.Process(target=child)
    process.start()
    send.close()
    try:
        answer = receive.recv()
    except EOFError:
        process.join()
        # only the CPU limit counts as "too slow"; a crash must not count for the other side
        if process.exitcode == -signal.SIGXCPU:
            return None
        raise RuntimeError(f"a fit failed with status {process.exitcode}") from None
    process.join()
    return answer


def timed(fit: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of ``fit()``, and its last result; for short fits the mean of several."""
    began, times = cpu(), 0
    while True:
        answer = fit()
        times += 1
        if times == 10 or cpu() - began > 0.1:
            return (cpu() - began) / times, answer


class Weights(NamedTuple):
    """The weights of a fitted estimator."""

    coef_: Any
    intercept_: Any
    classes_: Any


# -- ours ------------------------------------------------------------------------------------------


def loaded() -> int:
    """Number of compiled functions that this process has loaded."""
    return sum(
        len(thing.overloads)
        for name, module in list(sys.modules.items())
        if name.startswith("maxmargin.compiled")
        for thing in vars(module).values()
        if hasattr(thing, "overloads")
    )


def fit_ours(problem: Problem, C: float, tol: float, limit: float) -> Cell:
    """CPU s, F, the certificate, the methods in their order and the trace of one fit.

    ``late`` where ``limit`` CPU seconds were not enough for ``tol``.
    """

    def work() -> tuple[Weights, Cell]:
        from maxmargin import LinearSVC

        def fit() -> tuple[Any, Watch]:
            watch = Watch(limit)
            return LinearSVC(C=C, tol=tol, callbacks=[watch], **problem.kind).fit(
                problem.X, problem.y
            ), watch

        # a forked process copies pages on first write: exclude this from the measured time
        warm(problem)
        before = loaded()
        seconds, (svc, watch) = timed(fit)
        methods = list(dict.fromkeys(record["method"] for record in svc.history_))
        out = {
            "seconds": seconds,
            "late": seconds > limit or not svc.converged_,
            "gap": svc.gap_,
            "lower": svc.lower_bound_,
            "stop": svc.stop_reason_,
            "methods": " > ".join(methods),
            "trace": watch.thin(300),
            "loaded": loaded() - before,
        }
        return Weights(svc.coef_, svc.intercept_, svc.classes_), out

    answer = in_a_fork(work, 2 * limit)  # callbacks run between iterations only
    if answer is not None and answer[1]["loaded"]:
        # a new method: load its functions here, so that later forks have them
        work()
        answer = in_a_fork(work, 2 * limit)
    if answer is None:
        nothing: Cell = {"F": None, "lower": None, "gap": None, "methods": "", "trace": []}
        return {**nothing, "seconds": 2 * limit, "late": True, "stop": "CPU limit"}
    weights, out = answer
    return {**out, "F": problem.objective(weights, C)}


# -- theirs ----------------------------------------------------------------------------------------


def fit_theirs(
    problem: Problem, C: float, tol: float, limit: float, max_iter: int = NO_LIMIT
) -> Cell | None:
    """CPU seconds, F and iterations of one fit; None if it hit the limit."""

    def work() -> tuple[Weights, float, int]:
        from sklearn.svm import LinearSVC

        warnings.simplefilter("ignore")
        kind = "ovr" if problem.n_classes == 2 else "crammer_singer"
        svc = LinearSVC(loss="hinge", dual=True, C=C, multi_class=kind, random_state=0)
        some = problem.some()
        svc.set_params(tol=1.0, max_iter=5).fit(some.X, some.y)  # as in fit_ours
        svc.set_params(tol=tol, max_iter=max_iter)
        seconds, _ = timed(lambda: svc.fit(problem.X, problem.y))
        return Weights(svc.coef_, svc.intercept_, svc.classes_), seconds, int(np.max(svc.n_iter_))

    answer = in_a_fork(work, limit)
    if answer is None or answer[1] > limit:
        return None
    weights, seconds, iterations = answer
    return {
        "tol": tol,
        "seconds": seconds,
        "F": problem.objective(weights, C),
        "iterations": iterations,
        "ended": iterations < max_iter,  # by its stopping rule, not by max_iter
    }


@dataclass
class Search:
    """LIBLINEAR's fits of one problem and C, each tolerance at most once.

    Killed fits would waste most of the time of a search. So a fit gets no more iterations than the limit
    should allow at the observed speed: a fit that is too slow then ends by itself, shortly before the limit,
    and reports its precision.
    """

    problem: Problem
    C: float
    limit: float
    #: CPU seconds per iteration: of a neighboring C, then of the last fit
    pace: float | None = None
    #: by index in the ladder
    fits: dict[int, Cell] = field(default_factory=dict)
    #: the best of the fits stopped by ``max_iter``
    cut_short: Cell | None = None
    #: the loosest tolerance that is known to take too long
    too_slow: int = len(LADDER)

    def state(self) -> Cell:
        """All of it, for a file."""
        names = ("pace", "cut_short", "too_slow")
        return {"fits": list(self.fits.values()), **{name: getattr(self, name) for name in names}}

    def restore(self, state: Cell) -> Search:
        """Resume from a stored state."""
        self.fits = {LADDER.index(fit["tol"]): fit for fit in state["fits"]}
        self.pace, self.cut_short = state["pace"], state["cut_short"]
        self.too_slow = state["too_slow"]
        return self

    def best(self) -> float:
        """The smallest F of all fits within the limit."""
        kept = [self.cut_short] if self.cut_short else []
        return min((fit["F"] for fit in [*self.fits.values(), *kept]), default=float("inf"))

    def fit(self, k: int) -> Cell | None:
        """The fit at ``LADDER[k]`` if it converges within the limit."""
        if k >= self.too_slow:
            return None
        if k in self.fits:
            return self.fits[k]
        most = 20 if self.pace is None else max(2, int(0.9 * self.limit / self.pace))
        for _ in range(6):
            found = fit_theirs(self.problem, self.C, LADDER[k], self.limit, most)
            if found is None:
                most = max(1, most // 2)
                if most == 1:
                    break
                continue
            self.pace = found["seconds"] / max(1, found["iterations"])
            if found["ended"]:
                self.fits[k] = found
                return found
            if self.cut_short is None or found["F"] < self.cut_short["F"]:
                self.cut_short = found
            if found["seconds"] > 0.75 * self.limit:
                break
            # iterations get cheaper by shrinking: continue at the current pace
            more = int(0.9 * self.limit / self.pace)
            if more <= 1.1 * most:
                break
            most = more
        self.too_slow = k
        return None

    def loosest(self, F_best: float, eps: float, first: int) -> int | None:
        """The loosest tolerance with F <= F_best (1 + eps) within the limit, searched from ``first``."""
        F_max, k = F_best * (1 + eps), first
        found = self.fit(k)
        while found is None and k > 0:
            # Too slow there. A looser tolerance stops earlier on the same path: it may suffice if the path
            # came near enough within the limit; F is not monotone, so "near" is generous.
            if self.cut_short is not None and self.cut_short["F"] > F_best * (1 + 3 * eps):
                return None
            k -= 1
            found = self.fit(k)
        while found is not None and found["F"] > F_max:
            k += 1
            found = self.fit(k) if k < len(LADDER) else None
        if found is None:
            return None
        while k > 0:
            looser = self.fit(k - 1)
            if looser is None or looser["F"] > F_max:
                break
            k -= 1
        return k
