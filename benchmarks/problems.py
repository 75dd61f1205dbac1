"""The classification problems of the benchmarks, and an independent objective for each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks import datasets
from benchmarks.common import cpu


class Problem(NamedTuple):
    """Samples, labels, and the number of classes."""

    X: Any
    y: Any
    n_classes: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def objective(self, estimator: Any, C: float) -> float:
        """F of an estimator's weights by :mod:`maxmargin.testing`, which shares no code with solvers."""
        from maxmargin.testing import binary_objective, multiclass_objective

        codes = np.searchsorted(estimator.classes_, self.y)
        coef, intercept = estimator.coef_, estimator.intercept_
        if self.n_classes == 2:
            b = float(np.ravel(intercept)[0])
            return binary_objective(coef, b, self.X, np.where(codes == 1, 1, -1), C)
        return multiclass_objective(coef, intercept, self.X, codes, C)

    @property
    def kind(self) -> dict[str, Any]:
        """The parameters of LinearSVC for the objective above: hinge, or the loss of Crammer and Singer."""
        return {
            "loss": "hinge",
            "multi_class": "ovr" if self.n_classes == 2 else "crammer_singer",
        }

    def rows(self, which: Any) -> Problem:
        """Some of the rows."""
        return Problem(self.X[which], self.y[which], self.n_classes)

    def some(self) -> Problem:
        """At most 400 random rows."""
        rng = np.random.default_rng(0)
        return self.rows(np.sort(rng.choice(self.n, min(self.n, 400), replace=False)))


#: name in the tables: what it is
PROBLEMS = {
    "covtype-2": "covertype, class 2 one-vs-rest, 581,012 x 54, standardized, CSR",
    "covtype-7": "covertype, 7 classes, the same rows",
    "mnist-10": "MNIST, 10 classes, 60,000 x 784, values in [0, 1], CSR (19 % dense)",
    "ccat": "RCV1 subset, topic CCAT, 14,401 x 47,236, CSR",
    "news20": "20 Newsgroups by date, tf-idf, 20 classes, 11,314 x 130,107, CSR",
    "a9a": "Adult a9a, 32,561 x 123, CSR",
    "breast-cancer": "breast cancer, 569 x 30, as it comes (not scaled), dense",
    "mnist-0-4": "MNIST, digits 0-4 against 5-9, the same rows",
    "imdb": "IMDB reviews, log counts of length 1, 25,000 x 64,352, CSR",
    "ijcnn1": "IJCNN1, 49,990 x 22, CSR",
    "w8a": "w8a, 49,749 x 300, CSR",
    "reuters": "Reuters-21578, money-fx against the rest, 7,770 x 8,315, CSR",
    "ccat-like": "generated text, 800,000 x 47,236, 75 words per row, CSR",
    "ccat-like-200k": "the first 200,000 rows of it",
}


def load(name: str, quick: bool = False) -> Problem:
    """A problem by name; ``quick`` keeps every k-th row, about 1,000 in all."""
    if quick and name.startswith("ccat-like"):  # generating fewer is faster than thinning
        return Problem(*datasets.ccat_like(1000), 2)
    problem = _load(name)
    if hasattr(problem.X, "indices"):  # scikit-learn's LinearSVC does not accept 64-bit indices
        problem.X.indices = problem.X.indices.astype(np.int32, copy=False)
        problem.X.indptr = problem.X.indptr.astype(np.int32, copy=False)
    return problem.rows(np.arange(0, problem.n, max(1, problem.n // 1000))) if quick else problem


def _load(name: str) -> Problem:
    if name.startswith("covtype"):
        X, y = datasets.covtype()
        return Problem(X, np.where(y == 2, 1, -1), 2) if name == "covtype-2" else Problem(X, y, 7)
    if name.startswith("mnist"):
        X, y = datasets.mnist(sparse=True)
        return Problem(X, np.where(y <= 4, 1, -1), 2) if name == "mnist-0-4" else Problem(X, y, 10)
    if name == "ccat":
        return Problem(*datasets.rcv1("CCAT"), 2)
    if name == "news20":
        return Problem(*datasets.newsgroups20("train"), 20)
    if name.startswith("ccat-like"):
        return Problem(*datasets.ccat_like(200_000 if name.endswith("200k") else 800_000), 2)
    if name in ("a9a", "ijcnn1", "w8a", "imdb", "reuters"):
        return Problem(*getattr(datasets, name)(), 2)
    if name != "breast-cancer":
        raise ValueError(f"no problem is called {name!r}; there are {', '.join(PROBLEMS)}")
    from sklearn.datasets import load_breast_cancer

    return Problem(*load_breast_cancer(return_X_y=True), 2)


def warm(problem: Problem) -> None:
    """Load the compiled functions for this kind of data, on a few rows."""
    from maxmargin import LinearSVC

    some = problem.some()
    LinearSVC(C=1e-2, tol=1e-2, max_iter=30, **some.kind).fit(some.X, some.y)


class Watch:
    """A callback that records (CPU s, passes, F, lower bound) of every iteration and stops at a CPU limit."""

    def __init__(self, limit: float = float("inf"), passes: float = float("inf")) -> None:
        self.limit, self.passes, self.began = limit, passes, cpu()
        self.trace: list[tuple[float, float, float, float]] = []

    def __call__(self, record: Any) -> bool:
        """Called by the solver."""
        now = cpu() - self.began
        self.trace.append((now, record.oracle_calls, record.objective, record.lower_bound))
        return now >= self.limit or record.oracle_calls >= self.passes

    def thin(self, most: int = 200) -> list[list[float | None]]:
        """The trace with at most about ``most`` rows, for a small file."""
        step = max(1, len(self.trace) // most)
        kept = self.trace[::step] + ([self.trace[-1]] if (len(self.trace) - 1) % step else [])
        return [[x if np.isfinite(x) else None for x in row] for row in kept]
