"""check_latent_task finds what is wrong."""

import numpy as np
import pytest
from tests.latent_tasks import Bags, Rows, WrongRows, bags_problem, rows_problem

from maxmargin.testing import check_latent_task


class LazyCompletion(Rows):
    def complete(self, x, y, w):
        return 0


class LazyArgmax(Rows):
    def loss_augmented_inference(self, x, y, w):
        return self.inference(x, w)


class LazyInference(WrongRows):
    def inference(self, x, w):
        return 0, 0


class Liar(Rows):
    wrong_only = True


class Negative(Rows):
    def loss(self, y, y_hat, h_hat):
        return -1.0


class Long(Rows):
    def joint_feature(self, x, y, h):
        return np.append(super().joint_feature(x, y, h), 0.0)


class Writes(Rows):
    def complete(self, x, y, w):
        self.last = x
        return super().complete(x, y, w)


class ExpensiveTruth(WrongRows):
    def loss(self, y, y_hat, h_hat):
        return 1.0


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (LazyCompletion, "complete"),
        (LazyArgmax, "loss_augmented_inference"),
        (LazyInference, "inference"),
        (Liar, "wrong_only"),
        (Negative, "must not be negative|nonnegative"),
        (Long, "joint_feature"),
        (Writes, "argmax"),
        (ExpensiveTruth, "wrong_only requires loss"),
    ],
)
def test_what_is_wrong_is_found(make, what):
    X, Y = rows_problem(0, n=6)
    task = make()
    with pytest.raises(AssertionError, match=what):
        check_latent_task(task, X, Y, outputs=task.outputs)


@pytest.mark.parametrize("task", [Rows(), WrongRows(), Bags()])
def test_what_is_right_passes(task):
    X, Y = bags_problem(0, n=8) if isinstance(task, Bags) else rows_problem(0, n=6)
    check_latent_task(task, X, Y, outputs=task.outputs)
