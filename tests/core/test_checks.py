"""Checks return the value, or raise an error that names the argument, its value, and what it may be."""

import numpy as np
import pytest

from maxmargin.core.checks import cost_matrix, integer, nonnegative, number, one_of, signs

INF, NAN = float("inf"), float("nan")


def test_values_are_returned():
    assert one_of("kind", "b", ("a", "b")) == "b"
    assert integer("k", np.int64(3)) == 3
    assert integer("k", None, optional=True) is None
    assert number("C", 0) == 0.0
    assert number("C", np.float32(0.5), positive=True) == 0.5
    assert number("coef0", -1.5, signed=True) == -1.5
    assert nonnegative("weight", [0, 2], (2,)).tolist() == [0.0, 2.0]
    assert nonnegative("weight", np.ones((3, 4))[:, 1], (3,)).flags.c_contiguous
    assert cost_matrix("cost", [[0, 1], [2, 0]], 2).tolist() == [[0.0, 1.0], [2.0, 0.0]]
    signs("the hinge loss", np.array([1.0, -1.0]))


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (lambda: one_of("kind", "c", ("a", "b")), "kind='c': use 'a' or 'b'."),
        (lambda: one_of("kind", ["a"], ("a", "b")), r"kind=\['a'\]: use"),
        (lambda: integer("k", 0), "k must be an integer of at least 1, got 0."),
        (lambda: integer("k", 1.0), "got 1.0."),
        (lambda: integer("k", True), "got True."),
        (lambda: integer("k", None), "got None."),
        (lambda: integer("k", "3", 2, optional=True), "at least 2 or None, got '3'."),
        (lambda: number("C", -1.0), "C must be a nonnegative, finite number, got -1.0."),
        (lambda: number("C", 0, positive=True), "C must be a positive, finite number, got 0."),
        (lambda: number("C", NAN), "got nan."),
        (lambda: number("C", INF, positive=True), "got inf."),
        (lambda: number("C", "1"), "got '1'."),
        (lambda: number("C", True), "got True."),
        (lambda: number("coef0", -INF, signed=True), "coef0 must be a finite number, got -inf."),
        (lambda: nonnegative("w", np.ones(3), (2,)), r"w has shape \(3,\); expected \(2,\)."),
        (lambda: nonnegative("w", [1, -2]), "w must be finite and nonnegative; number 1 is -2.0."),
        (lambda: nonnegative("w", [NAN], (1,), ", one each"), "number 0 is nan, one each."),
        (lambda: cost_matrix("cost", np.zeros((2, 3))), r"square matrix, got shape \(2, 3\)."),
        (lambda: cost_matrix("cost", 0.0), r"square matrix, got shape \(\)."),
        (lambda: cost_matrix("cost", np.zeros((2, 2)), 3), r"of shape \(3, 3\), got shape"),
        (lambda: cost_matrix("cost", [[0, -1], [1, 0]]), "number 1 is -1.0"),
        (lambda: cost_matrix("cost", np.ones((2, 2))), "cost must be zero on the diagonal."),
        (lambda: signs("the hinge loss", np.array([1.0, 0.0])), "labels of the hinge loss must be"),
    ],
)
def test_errors_name_the_argument_the_value_and_what_it_may_be(check, said):
    with pytest.raises(ValueError, match=said):
        check()
