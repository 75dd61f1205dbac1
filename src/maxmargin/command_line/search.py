"""Cross-validation over C for any estimator of the command."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from maxmargin.command_line import fitting
from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    AnyArray,
    Examples,
    Rows,
    Sequences,
    Stored,
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One fit: a value of C, the score on the fold that was left out, and the certificate."""

    C: float
    score: float
    gap: float
    converged: bool


@dataclass(frozen=True, slots=True)
class Row:
    """All folds of one value of C."""

    C: float
    mean: float
    std: float
    gap: float
    converged: bool


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search; cells are ordered by C."""

    cells: list[Cell]

    @property
    def rows(self) -> list[Row]:
        out = []
        for C, group in groupby(self.cells, key=lambda cell: cell.C):
            cells = list(group)
            scores = np.array([cell.score for cell in cells])
            gap = max(cell.gap for cell in cells)
            converged = all(cell.converged for cell in cells)
            out.append(Row(C, float(scores.mean()), float(scores.std()), gap, converged))
        return out

    @property
    def best(self) -> Row:
        return max(self.rows, key=lambda row: (row.mean, -row.C))

    @property
    def best_C(self) -> float:
        return self.best.C

    @property
    def best_score(self) -> float:
        return self.best.mean


def search(
    template: Any, values: list[float], folds: int, scoring: str | None, examples: Examples
) -> Found:
    """Fit every value of C on every fold."""
    examples = in_memory(examples)
    if examples.y is None:
        raise CommandError("the input has no labels. Name their column with --label.")
    if type(template).__name__ == "LinearSVC":
        return _linear(template, values, folds, scoring, examples)
    cells = [
        _cell(template, C, taken(examples, train), taken(examples, test), scoring)
        for C in values
        for train, test in splits(template, examples, folds)
    ]
    return Found(cells)


def refit(template: Any, C: float, examples: Examples) -> Any:
    """The estimator with this C, fitted to all examples."""
    from sklearn.base import clone

    return _fitted(clone(template).set_params(C=C), examples)


def in_words(found: Found, name: str, scoring: str | None) -> str:
    """A table, and the best value."""
    from maxmargin.command_line.tables import table

    rows = [["C", "mean score", "std", "largest gap", ""]]
    rows += [
        [f"{row.C:g}", f"{row.mean:.4f}", f"{row.std:.4f}", f"{row.gap:.1e}",
         "certified" if row.converged else "not certified"]
        for row in found.rows
    ]  # fmt: skip
    best = found.best
    return f"{table(rows)}\nbest: C={best.C:g}, {scoring or _SCORES[name]} {best.mean:.4f}"


_SCORES = {
    "LinearSVC": "accuracy",
    "KernelSVC": "accuracy",
    "MeasureSVC": "the measure",
    "LinearSVR": "R2",
    "RankSVM": "pairs in the right order",
    "SequenceTagger": "accuracy over tokens",
}


def _linear(
    template: Any, values: list[float], folds: int, scoring: str | None, examples: Rows | Sequences
) -> Found:
    """All cells of a linear classifier together, each from the solution of the one before."""
    from sklearn.exceptions import ConvergenceWarning

    from maxmargin import LinearSVCCV

    params = template.get_params(deep=False)
    shared = [*("loss", "tol", "fit_intercept", "intercept_scaling", "penalize_intercept"),
              *("max_iter", "max_seconds", "n_jobs", "random_state", "callbacks")]  # fmt: skip
    other = {
        name: value
        for name, value in params.items()
        if name not in (*shared, "C", "class_weight") and _differs(value, template, name)
    }
    if other:
        raise CommandError(f"cv of LinearSVC has no parameter {next(iter(other))}.")
    model = LinearSVCCV(
        values, cv=folds, scoring=scoring, class_weights=[params["class_weight"]], refit=False,
        **{name: params[name] for name in shared},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(examples.X, examples.y, sample_weight=examples.weight)
    table = model.cv_results_
    cells = [
        Cell(
            float(C),
            float(table[f"split{k}_test_score"][at]),
            float(table[f"split{k}_gap"][at]),
            bool(table[f"split{k}_converged"][at]),
        )
        for at, C in enumerate(table["param_C"])
        for k in range(model.n_splits_)
    ]
    return Found(sorted(cells, key=lambda cell: cell.C))


def _differs(value: Any, template: Any, name: str) -> bool:
    default = type(template)().get_params(deep=False)[name]
    return value is not default and value != default


def _cell(
    template: Any, C: float, train: Rows | Sequences, test: Rows | Sequences, scoring: str | None
) -> Cell:
    from sklearn.base import clone
    from sklearn.metrics import get_scorer

    fitted = _fitted(clone(template).set_params(C=C), train)
    options = fitting.training(test)
    options.pop("sample_weight", None)
    if type(template).__name__ != "RankSVM":
        options.pop("groups", None)
    if scoring is None:
        score = fitted.score(**options)
    elif isinstance(test, Sequences):
        raise CommandError(
            "--scoring is not for sequences, which are scored by the accuracy over tokens."
        )
    else:
        score = get_scorer(scoring)(fitted, options["X"], options["y"])
    return Cell(C, float(score), float(fitted.gap_), bool(fitted.converged_))


def _fitted(estimator: Any, examples: Examples) -> Any:
    from sklearn.exceptions import ConvergenceWarning

    options = fitting.training(examples)
    if type(estimator).__name__ != "RankSVM":
        options.pop("groups", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(**options)


# -- folds -----------------------------------------------------------------------------------------


def splits(
    template: Any, examples: Rows | Sequences, folds: int
) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Indices of the training and the test part of each fold."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    n = len(examples)
    group = examples.group if isinstance(examples, Rows) else None
    places = np.zeros(n)
    if group is not None:
        if len(np.unique(group)) < folds:
            raise CommandError(f"--folds {folds}: there are only {len(np.unique(group))} queries.")
        yield from GroupKFold(folds).split(places, groups=group)
    elif n < folds:
        raise CommandError(f"--folds {folds}: there are only {n} examples.")
    elif isinstance(examples, Rows) and hasattr(template, "decision_function"):
        yield from StratifiedKFold(folds).split(places, examples.y)
    else:
        seed = 0  # sequences and samples of a file are often in order
        yield from KFold(folds, shuffle=True, random_state=seed).split(places)


def taken(examples: Rows | Sequences, which: AnyArray) -> Rows | Sequences:
    """Some of the examples."""
    weight = None if examples.weight is None else examples.weight[which]
    if isinstance(examples, Rows):
        group = None if examples.group is None else examples.group[which]
        y = None if examples.y is None else examples.y[which]
        return replace(examples, X=examples.X[which], y=y, weight=weight, group=group)
    labels = None if examples.y is None else [examples.y[k] for k in which]
    if examples.lengths is None:
        tokens: Any = examples.X
        return Sequences([tokens[k] for k in which], labels, weight)
    ends = np.cumsum(examples.lengths)
    rows = np.concatenate([np.arange(ends[k] - examples.lengths[k], ends[k]) for k in which])
    matrix: Any = examples.X
    return Sequences(matrix[rows], labels, weight, examples.lengths[which])


def in_memory(examples: Examples) -> Rows | Sequences:
    """Examples whose parts can be taken: a data set on disk is loaded."""
    if not isinstance(examples, Stored):
        return examples
    X, y, weight = examples.data.load()
    if examples.data.ragged:
        import scipy.sparse as sp

        lengths = np.array([part.shape[0] for part in X])
        stacked = sp.vstack(X, format="csr") if sp.issparse(X[0]) else np.concatenate(X)
        return Sequences(
            stacked, None if y is None else [part.tolist() for part in y], weight, lengths
        )
    group = None if examples.data.group is None else np.asarray(examples.data.group[:])
    return Rows(X, y, weight, group, examples.data.feature_names)
