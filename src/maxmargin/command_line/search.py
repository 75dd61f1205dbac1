"""Cross-validation over C for any estimator of the command."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from maxmargin.command_line import models
from maxmargin.command_line.examples import AnyArray, FileExamples
from maxmargin.command_line.report import CommandError, finite, table

#: names of the scores, by the loss or the estimator
_SCORES = {
    "LinearSVC": "accuracy",
    "KernelSVC": "accuracy",
    "MeasureSVC": "the measure",
    "LinearSVR": "R2",
    "RankSVM": "pairs in the right order",
    "ndcg": "NDCG",  # losses of RankSVM, whose score follows the loss
    "map": "average precision",
    "SequenceTagger": "accuracy over tokens",
}
#: score, gap, and whether the fit is certified
_Cell = tuple[float, float, bool]


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of C and its cells, one for each fold; folds are missing after Ctrl-C."""

    C: float
    cells: list[_Cell]
    n_folds: int

    @property
    def n_missing(self) -> int:
        return self.n_folds - len(self.cells)

    @property
    def converged(self) -> bool:
        """Whether all fits are certified."""
        return bool(self.cells) and all(converged for _, _, converged in self.cells)

    @property
    def mean(self) -> float:
        return float(np.mean([score for score, _, _ in self.cells])) if self.cells else np.nan

    @property
    def std(self) -> float:
        return float(np.std([score for score, _, _ in self.cells])) if self.cells else np.nan

    @property
    def gap(self) -> float:
        """The largest gap."""
        return max((gap for _, gap, _ in self.cells), default=np.nan)


class _Stopped(BaseException):
    """Ctrl-C. No fit catches it: after KeyboardInterrupt, a fit would first compute the bounds of a model
    that a search does not use."""


def _stop(number: int, frame: object) -> None:
    raise _Stopped


def values_of_C(text: str) -> list[float]:
    """The values of an option such as ``0.1,1``, in ascending order."""
    try:
        values = sorted({float(part) for part in text.replace(",", " ").split()})
    except ValueError:
        values = []
    if not values or not values[0] > 0.0:
        raise CommandError(f"--Cs {text}: give positive numbers, such as 0.01,0.1,1.")
    return values


def search(
    template: Any, values: list[float], folds: int, scoring: str | None, examples: FileExamples
) -> list[Setting]:
    """Fit every value of C, in ascending order, on every fold. After Ctrl-C, cells are missing."""
    examples = examples.loaded()
    options = models.training(template, examples)
    if type(template).__name__ == "LinearSVC":
        return _linear(template, values, folds, scoring, options)
    parts = list(splits(template, examples, folds))
    cells: dict[float, list[_Cell]] = {C: [] for C in values}
    main = threading.current_thread() is threading.main_thread()  # only there are handlers set
    before = signal.signal(signal.SIGINT, _stop) if main else None
    try:
        for C, part in product(values, parts):
            cells[C].append(_cell(template, C, options, *part, scoring))
    except _Stopped:
        pass
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
    return [Setting(C, found, len(parts)) for C, found in cells.items()]


def best_of(found: list[Setting]) -> Setting | None:
    """The best mean score over all folds; of equal ones the smallest C."""
    complete = [setting for setting in found if not setting.n_missing]
    return max(complete, key=lambda setting: (setting.mean, -setting.C), default=None)


def refit(template: Any, C: float, examples: FileExamples) -> Any:
    """The estimator with this C, fitted to all examples; after Ctrl-C with what was found."""
    from maxmargin import return_on_interrupt

    with return_on_interrupt():
        return _fitted(template, C, models.training(template, examples))


def in_words(found: list[Setting], template: Any, scoring: str | None) -> str:
    """A table, and the best value."""
    rows = [["C", "mean score", "std", "largest gap", ""]]
    for row in found:
        state = "certified" if row.converged else "not certified"
        if row.n_missing:
            state = f"{len(row.cells)} of {row.n_folds} folds"
        rows.append([f"{row.C:g}", f"{row.mean:.4f}", f"{row.std:.4f}", f"{row.gap:.1e}", state])
    best = best_of(found)
    score = _SCORES.get(str(getattr(template, "loss", "")), _SCORES[type(template).__name__])
    last = "" if best is None else f"\nbest: C={best.C:g}, {scoring or score} {best.mean:.4f}"
    return table(rows) + last


def as_json(found: list[Setting]) -> dict[str, Any]:
    """The table and the best value for JSON."""
    rows = [
        {
            "C": setting.C,
            "mean_score": finite(setting.mean),
            "std_score": finite(setting.std),
            "largest_gap": finite(setting.gap),
            "certified": setting.converged,
            "folds": len(setting.cells),
        }
        for setting in found
    ]
    best = best_of(found)
    C, score = (None, None) if best is None else (best.C, finite(best.mean))
    return {"best_C": C, "best_score": score, "table": rows}


def _linear(
    template: Any, values: list[float], folds: int, scoring: str | None, options: dict[str, Any]
) -> list[Setting]:
    """All cells of a linear classifier together, each from the solution of the one before."""
    from sklearn.exceptions import ConvergenceWarning

    from maxmargin import LinearSVCCV

    params, defaults = template.get_params(deep=False), type(template)().get_params(deep=False)
    shared = params.keys() & LinearSVCCV(values).get_params(deep=False).keys() - {"refit"}
    for name in params.keys() - shared - {"C", "class_weight"}:
        if params[name] is not defaults[name] and params[name] != defaults[name]:
            raise CommandError(f"cv of LinearSVC has no parameter {name}.")
    model = LinearSVCCV(
        values, cv=folds, scoring=scoring, class_weights=[params["class_weight"]], refit=False,
        **{name: params[name] for name in shared},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(**options)
        except KeyboardInterrupt:
            if not hasattr(model, "cv_results_"):
                raise
    results, cells = model.cv_results_, {C: list[_Cell]() for C in values}
    for at, C in enumerate(results["param_C"].tolist()):
        for k in range(model.n_splits_):
            cell = [results[f"split{k}_{name}"][at] for name in ("test_score", "gap", "converged")]
            if not np.isnan(results[f"split{k}_gap"][at]):  # as after Ctrl-C
                cells[C].append((float(cell[0]), float(cell[1]), bool(cell[2])))
    return [Setting(C, found, model.n_splits_) for C, found in cells.items()]


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
    template: Any, examples: FileExamples, folds: int
) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Indices of the training and the test part of each fold."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

    n, group = len(examples), examples.group
    places = np.zeros(n)
    if group is not None:
        if len(np.unique(group)) < folds:
            raise CommandError(f"--folds {folds}: there are only {len(np.unique(group))} queries.")
        yield from GroupKFold(folds).split(places, groups=group)
    elif n < folds:
        raise CommandError(f"--folds {folds}: there are only {n} examples.")
    elif not examples.are_sequences and hasattr(template, "decision_function"):
        yield from StratifiedKFold(folds).split(places, examples.y)
    else:
        seed = 0  # sequences and samples of a file are often in order
        yield from KFold(folds, shuffle=True, random_state=seed).split(places)
