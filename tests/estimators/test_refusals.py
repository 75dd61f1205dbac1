"""What is wrong with an argument is said by name, with what to do."""

import numpy as np
import pytest

from maxmargin import RankSVM, StructuredSVM
from maxmargin.tasks import Enumerable

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.0]])
Y = np.array([0, 1, 1, 0])
CANDIDATES = [np.eye(2), np.eye(2)]


@pytest.mark.parametrize(
    ("fit", "match"),
    [
        (lambda: RankSVM().fit(X, Y, ["a", None, "a", "b"]), "a query for every sample"),
        (
            lambda: StructuredSVM(Enumerable()).fit(CANDIDATES, [0.5, 1]),
            "example 0: the right candidate must be a row number",
        ),
        (
            lambda: StructuredSVM(Enumerable()).fit([[[1.0]], [[2.0]]], [0, 0]),
            "example 0: the input must be a matrix",
        ),
    ],
)
def test_the_argument_is_named(fit, match):
    with pytest.raises(ValueError, match=match):
        fit()
