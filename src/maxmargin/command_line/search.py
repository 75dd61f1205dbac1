"""Cross-validation over C for any estimator of the command."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.command_line import fitting
from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    AnyArray,
    Examples,
    Samples,
    Sequences,
    in_memory,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of C: the scores on the folds, the largest gap, and whether all fits are certified."""

    C: float
    mean: float
    std: float
    gap: float
    converged: bool


def search(
    template: Any, values: list[float], folds: int, scoring: str | None, examples: Examples
) -> list[Setting]:
    """Fit every value of C, in ascending order, on every fold."""
    examples = in_memory(examples)
    options = fitting.training(template, examples)
    if type(template).__name__ == "LinearSVC":
        return _linear(template, values, folds, scoring, options)
    parts = list(splits(template, examples, folds))
    return [
        _setting(C, [_cell(template, C, options, *part, scoring) for part in parts]) for C in values
    ]


def best_of(found: list[Setting]) -> Setting:
    """The best mean score; of equal ones the smallest C."""
    return max(found, key=lambda setting: (setting.mean, -setting.C))


def refit(template: Any, C: float, examples: Examples) -> Any:
    """The estimator with this C, fitted to all examples."""
    return _fitted(template, C, fitting.training(template, examples))


def in_words(found: list[Setting], name: str, scoring: str | None) -> str:
    """A table, and the best value."""
    from maxmargin.command_line.tables import table

    rows = [["C", "mean score", "std", "largest gap", ""]]
    rows += [
        [f"{row.C:g}", f"{row.mean:.4f}", f"{row.std:.4f}", f"{row.gap:.1e}",
         "certified" if row.converged else "not certified"]
        for row in found
    ]  # fmt: skip
    best = best_of(found)
    return f"{table(rows)}\nbest: C={best.C:g}, {scoring or _SCORES[name]} {best.mean:.4f}"


_SCORES = {
    "LinearSVC": "accuracy",
    "KernelSVC": "accuracy",
    "MeasureSVC": "the measure",
    "LinearSVR": "R2",
    "RankSVM": "pairs in the right order",
    "SequenceTagger": "accuracy over tokens",
}
#: score, gap, and whether the fit is certified
_Cell = tuple[float, float, bool]


def _setting(C: float, cells: list[_Cell]) -> Setting:
    scores, gaps, converged = zip(*cells, strict=True)
    return Setting(C, float(np.mean(scores)), float(np.std(scores)), max(gaps), all(converged))


def _linear(
    template: Any, values: list[float], folds: int, scoring: str | None, options: dict[str, Any]
) -> list[Setting]:
    """All cells of a linear classifier together, each from the solution of the one before."""
    from sklearn.exceptions import ConvergenceWarning

    from maxmargin import LinearSVCCV

    params = template.get_params(deep=False)
    shared = [*("loss", "tol", "fit_intercept", "intercept_scaling", "penalize_intercept"),
              *("max_iter", "max_seconds", "n_jobs", "random_state", "callbacks")]  # fmt: skip
    defaults = type(template)().get_params(deep=False)
    for name in set(params) - {*shared, "C", "class_weight"}:
        if params[name] is not defaults[name] and params[name] != defaults[name]:
            raise CommandError(f"cv of LinearSVC has no parameter {name}.")
    model = LinearSVCCV(
        values, cv=folds, scoring=scoring, class_weights=[params["class_weight"]], refit=False,
        **{name: params[name] for name in shared},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(**options)
    columns = [
        [model.cv_results_[f"split{k}_{name}"].tolist() for k in range(model.n_splits_)]
        for name in ("test_score", "gap", "converged")
    ]
    found = [
        _setting(
            C, [(score[at], gap[at], done[at]) for score, gap, done in zip(*columns, strict=True)]
        )
        for at, C in enumerate(model.cv_results_["param_C"].tolist())
    ]
    return sorted(found, key=lambda setting: setting.C)


def _cell(
    template: Any,
    C: float,
    options: dict[str, Any],
    train: AnyArray,
    test: AnyArray,
    scoring: str | None,
) -> _Cell:
    from sklearn.metrics import get_scorer

    fitted = _fitted(template, C, _taken(options, train))
    rest = _taken(options, test)
    rest.pop("sample_weight", None)
    if scoring is None:
        score = fitted.score(**rest)
    elif type(template).__name__ == "SequenceTagger":
        raise CommandError(
            "--scoring is not for sequences, which are scored by the accuracy over tokens."
        )
    else:
        score = get_scorer(scoring)(fitted, rest["X"], rest["y"])
    return float(score), float(fitted.gap_), bool(fitted.converged_)


def _fitted(template: Any, C: float, options: dict[str, Any]) -> Any:
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(template).set_params(C=C).fit(**options)


def _taken(options: dict[str, Any], which: AnyArray) -> dict[str, Any]:
    """The arguments of ``fit`` for some of the examples."""
    return {
        name: [values[k] for k in which] if isinstance(values, list) else values[which]
        for name, values in options.items()
        if values is not None
    }


def splits(
    template: Any, examples: Samples | Sequences, folds: int
) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Indices of the training and the test part of each fold."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    n = len(examples)
    group = examples.group if isinstance(examples, Samples) else None
    places = np.zeros(n)
    if group is not None:
        if len(np.unique(group)) < folds:
            raise CommandError(f"--folds {folds}: there are only {len(np.unique(group))} queries.")
        yield from GroupKFold(folds).split(places, groups=group)
    elif n < folds:
        raise CommandError(f"--folds {folds}: there are only {n} examples.")
    elif isinstance(examples, Samples) and hasattr(template, "decision_function"):
        yield from StratifiedKFold(folds).split(places, examples.y)
    else:
        seed = 0  # sequences and samples of a file are often in order
        yield from KFold(folds, shuffle=True, random_state=seed).split(places)
