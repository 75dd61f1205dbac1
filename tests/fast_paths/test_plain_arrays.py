"""Arrays that need no conversion are validated without scikit-learn: same results, same refusals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.utils import validation

import maxmargin as mm
from maxmargin.estimators.checked_matrices import validate_data

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = np.where(X[:, 0] > 0, 1, 0)


def by_scikit(estimator: Any, X: Any, y: Any, **options: Any) -> Any:
    return validation.validate_data(
        estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", **options
    )


def outcome(validate: Any, estimator: Any, X: Any, y: Any, **options: Any) -> tuple[Any, ...]:
    """What is returned, the warnings, and the attributes; or the type of the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made: Any = validate(estimator, X, y, **options)
        except Exception as error:
            return (type(error),)
    parts = made if isinstance(made, tuple) else (made,)
    same = [(part.dtype, part.tolist()) for part in parts]
    names = getattr(estimator, "feature_names_in_", None)
    features = getattr(estimator, "n_features_in_", None)
    return same, [str(w.message) for w in caught], features, None if names is None else list(names)


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (X, Y),
        (X.astype(np.float32), Y.astype(bool)),
        (X, Y.astype(np.float32)),
        (X, np.array(["a", "b"])[Y]),
        (X, np.array(["a", "b"], dtype=object)[Y]),
        (np.asfortranarray(X), Y),
        (X[::2], Y[::2]),
        (X.astype(np.float16), Y),
        (X.astype(int), Y),
        (X.astype(">f8"), Y),
        (X, Y[:, None]),
        (X, Y[:-1]),
        (X, np.where(Y == 1, np.nan, 0.0)),
        (np.where(X > 2, np.inf, X), Y),
        (X[:, :0], Y),
        (X[:0], Y[:0]),
        (X[0], Y),
        (X, None),
        (X, "no labels"),
        (X.tolist(), Y.tolist()),
        (X.astype(complex), Y),
    ],
)
@pytest.mark.parametrize("numeric", [False, True])
def test_same_as_scikit_learn(rows: Any, labels: Any, numeric: bool) -> None:
    found, expected = (
        outcome(validate, mm.LinearSVC(loss="hinge"), rows, labels, y_numeric=numeric)
        for validate in (validate_data, by_scikit)
    )
    assert found == expected


@pytest.mark.parametrize("names", [None, ["a", "b", "c", "d"]])
@pytest.mark.parametrize("width", [3, 4])
def test_rows_for_a_prediction(names: Any, width: int) -> None:
    made = []
    for validate in (validate_data, by_scikit):
        estimator = mm.LinearSVC(loss="hinge")
        estimator.n_features_in_ = 4
        if names is not None:
            estimator.feature_names_in_ = np.array(names, dtype=object)
        made.append(outcome(validate, estimator, X[:, :width].copy(), "no_validation", reset=False))
    assert made[0] == made[1]


def test_names_of_an_earlier_fit_are_removed() -> None:
    pandas = pytest.importorskip("pandas")
    svc = mm.LinearSVC(loss="hinge").fit(pandas.DataFrame(X, columns=list("abcd")), Y)
    assert list(svc.feature_names_in_) == list("abcd")
    assert not hasattr(svc.fit(X, Y), "feature_names_in_")


@pytest.mark.parametrize("labels", [X[:, 0], np.arange(30), np.arange(30.0)])
def test_labels_that_are_no_classes(labels: Any) -> None:
    """scikit-learn's own check decides, whatever it says in this version."""
    from sklearn.utils.multiclass import check_classification_targets

    def outcome(check: Any) -> tuple[Any, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                check()
            except ValueError as error:
                return str(error), []
        return None, [str(w.message) for w in caught if "unique classes" in str(w.message)]

    expected = outcome(lambda: check_classification_targets(labels))
    assert (
        outcome(lambda: mm.LinearSVC(max_iter=1, tol=0.9, loss="hinge").fit(X, labels)) == expected
    )
