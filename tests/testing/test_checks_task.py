"""check_task: right tasks pass, and each kind of wrong one is caught with a word on what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin.core import Cut
from maxmargin.risks.structured.python_examples import PlainExamples
from maxmargin.tasks.base import Bounded, Task
from maxmargin.testing import check_task

RNG = np.random.default_rng(3)
VECTORS = [RNG.normal(size=3) for _ in range(5)]
CLASSES = [0, 1, 2, 1, 0]
WORDS = [RNG.normal(size=(n, 2)) for n in (2, 3, 1, 3)]
TAGS = [(0, 1), (2, 1, 0), (1,), (0, 0, 2)]


class PackedChain(TinyChain):
    """A chain with a packed form, and a place to spoil it."""

    Packed = PlainExamples

    def pack(self, X, Y):
        return self.Packed(self, X, Y, self.dim, "margin")


@pytest.mark.parametrize(
    "cost", [None, [[0, 1, 2], [3, 0, 0.5], [1, 1, 0]]], ids=["zero_one", "costs"]
)
def test_a_right_multiclass_task_passes(cost):
    task = TinyMulticlass(cost)
    check_task(task, VECTORS, CLASSES, outputs=task.outputs)
    check_task(TinyMulticlass(cost), VECTORS, CLASSES)


def test_a_right_chain_passes_packed_or_not():
    for task in (TinyChain(), PackedChain()):
        check_task(task, WORDS, TAGS, outputs=task.outputs)
        check_task(task, WORDS, TAGS)


class WrongDim(TinyMulticlass):
    def setup(self, X, Y):
        return super().setup(X, Y) + 1


class FloatDim(TinyMulticlass):
    def setup(self, X, Y):
        return float(super().setup(X, Y))


class NegativeLoss(TinyMulticlass):
    def loss(self, y, y_hat):
        return 0.0 if y == y_hat else -1.0


class LossAtTruth(TinyMulticlass):
    def loss(self, y, y_hat):
        return 0.5


class WrongInference(TinyMulticlass):
    def inference(self, x, w):
        return 0


class WrongOracle(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        return self.inference(x, w)  # forgets the loss


class LazyOracle(TinyMulticlass):
    """Best of the truth and one other class: never below the truth, yet not the maximum."""

    def loss_augmented_inference(self, x, y, w):
        other = (y + 1) % self.n_classes
        return max((y, other), key=lambda o: self.loss(y, o) + self._score(x, o, w))


class WrongSlack(TinyMulticlass):
    def slack_augmented_inference(self, x, y, w):
        return self.loss_augmented_inference(x, y, w)


class WrongDifference(TinyMulticlass):
    def difference(self, x, y_a, y_b):
        return self.joint_feature(x, y_b) - self.joint_feature(x, y_a)


class Writes(TinyMulticlass):
    def inference(self, x, w):
        self.last = super().inference(x, w)
        return self.last


class WritesDeep(TinyMulticlass):
    def setup(self, X, Y):
        self.seen = {}
        return super().setup(X, Y)

    def loss(self, y, y_hat):
        self.seen[y, y_hat] = True
        return super().loss(y, y_hat)


class ChangesInput(TinyMulticlass):
    def inference(self, x, w):
        answer = super().inference(x, w)
        x += 1.0
        return answer


class FalseUpper(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        y_hat = super().loss_augmented_inference(x, y, w)
        return Bounded(y_hat, self.loss(y, y_hat) + self._score(x, y_hat, w) - 0.1)


class UpperBelowBest(LazyOracle):
    def loss_augmented_inference(self, x, y, w):
        y_hat = super().loss_augmented_inference(x, y, w)
        return Bounded(y_hat, self.loss(y, y_hat) + self._score(x, y_hat, w))


class UnsortedFeature(TinyChain):
    def joint_feature(self, x, y):
        psi = super().joint_feature(x, y)
        return type(psi)(psi.indices[::-1], psi.values[::-1], psi.size)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (WrongDim(), "shape"),
        (FloatDim(), "positive int"),
        (NegativeLoss(), "nonnegative"),
        (LossAtTruth(), r"loss\(y, y\)"),
        (WrongInference(), "inference"),
        (WrongOracle(), "loss_augmented_inference"),
        (LazyOracle(), "brute force"),
        (WrongSlack([[0, 1, 3], [3, 0, 0.5], [1, 2, 0]]), "slack_augmented_inference"),
        (WrongDifference(), "difference"),
        (Writes(), "wrote to last"),
        (WritesDeep(), "wrote to seen"),
        (ChangesInput(), "changed their input"),
        (FalseUpper(), "upper is below the value attained"),
        (UpperBelowBest(), "upper is below brute force"),
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, str) else "",
)
def test_wrong_tasks_are_caught(task, message):
    X = [x.copy() for x in VECTORS]
    with pytest.raises(AssertionError, match=message):
        check_task(task, X, CLASSES, outputs=task.outputs)


def test_unsorted_sparse_features_are_caught():
    with pytest.raises(AssertionError, match="sorted"):
        check_task(UnsortedFeature(), WORDS, TAGS)


def test_an_honest_truncated_oracle_passes():
    class Truncated(LazyOracle):
        def loss_augmented_inference(self, x, y, w):
            found = super().loss_augmented_inference(x, y, w)
            bound = max(self.loss(y, o) + self._score(x, o, w) for o in self.outputs(x))
            return Bounded(found, bound + 0.01)

        slack_augmented_inference = TinyMulticlass.slack_augmented_inference

    task = Truncated()
    check_task(task, VECTORS, CLASSES, outputs=task.outputs)


def test_an_undergenerating_oracle_may_miss_but_not_exceed():
    class Greedy(LazyOracle):
        oracle_kind = "undergenerating"

        def slack_augmented_inference(self, x, y, w):
            return y

    task = Greedy()
    check_task(task, VECTORS, CLASSES, outputs=task.outputs)


# -- the packed form, spoiled one part at a time ---------------------------------------------------


class WrongValues(PlainExamples):
    def oracle(self, w, lo, hi):
        a = super().oracle(w, lo, hi)
        return type(a)(lo, hi, a.labelings, a.losses, a.values + 0.01, a.uppers + 0.01)


class IgnoresRange(PlainExamples):
    def oracle(self, w, lo, hi):
        a = super().oracle(w, 0, hi - lo)
        return type(a)(lo, hi, a.labelings, a.losses, a.values, a.uppers)


class ForgetsWeights(PlainExamples):
    def cut(self, answers, weights):
        return super().cut(answers, (weights > 0).astype(float))


class WrongOffset(PlainExamples):
    def cut(self, answers, weights):
        cut = super().cut(answers, weights)
        return Cut(cut.offset + 0.01, cut.plane)


class WrongPredict(PlainExamples):
    def predict(self, w, lo, hi):
        return list(self._Y[lo:hi])


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (WrongValues, "against the Python methods"),
        (IgnoresRange, "against the Python methods|offset"),
        (ForgetsWeights, "weighted sum"),
        (WrongOffset, "offset against the loss"),
        (WrongPredict, "predict"),
    ],
)
def test_wrong_packed_forms_are_caught(packed, message):
    class Task(PackedChain):
        Packed = packed

    task = Task()
    with pytest.raises(AssertionError, match=message):
        check_task(task, WORDS, TAGS, outputs=task.outputs, n_trials=8)


# -- without a list of outputs ---------------------------------------------------------------------

ZERO_ONE = 1.0 - np.eye(3)


class WrongSign(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        return max(self.outputs(x), key=lambda o: self._score(x, o, w) - self.loss(y, o))


class OnlyTheLoss(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        return max(self.outputs(x), key=lambda o: self.loss(y, o))


class NegativeScore(TinyMulticlass):
    def inference(self, x, w):
        return min(self.outputs(x), key=lambda o: self._score(x, o, w))


class ChainWithoutLoss(TinyChain):
    def loss_augmented_inference(self, x, y, w):
        return self.inference(x, w)


class ChainWrongSign(TinyChain):
    def loss_augmented_inference(self, x, y, w):
        return max(self.outputs(x), key=lambda o: self._score(x, o, w) - self.loss(y, o))


class NoReturn(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        max(self.outputs(x), key=lambda o: self._score(x, o, w) + self.loss(y, o))


class NoReturnOfInference(TinyMulticlass):
    def inference(self, x, w):
        max(self.outputs(x), key=lambda o: self._score(x, o, w))


class UpperOfWrongSign(WrongSign):
    def loss_augmented_inference(self, x, y, w):
        y_hat = super().loss_augmented_inference(x, y, w)
        return Bounded(y_hat, self.loss(y, y_hat) + self._score(x, y_hat, w))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            WrongOracle(ZERO_ONE),
            "loss_augmented_inference .* the output with the largest loss.*plus sign",
        ),
        (WrongSign(ZERO_ONE), "loss_augmented_inference .* the output with the largest loss"),
        (OnlyTheLoss(ZERO_ONE), "loss_augmented_inference"),
        (NegativeScore(ZERO_ONE), "inference"),
        (LazyOracle(ZERO_ONE), "loss_augmented_inference .* the output with the largest loss"),
        (WrongInference(ZERO_ONE), "inference"),
        (
            WrongSlack([[0, 1, 3], [3, 0, 0.5], [1, 2, 0]]),
            "slack_augmented_inference",
        ),
        (UpperOfWrongSign(ZERO_ONE), "loss_augmented_inference"),
        (NoReturn(ZERO_ONE), "loss_augmented_inference .* returned None"),
        (NoReturnOfInference(ZERO_ONE), "inference .* returned None"),
        (ChainWithoutLoss(), "loss_augmented_inference .* the output with the largest loss"),
        (ChainWrongSign(), "loss_augmented_inference .* the output with the largest loss"),
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, str) else "",
)
@pytest.mark.parametrize("n", [1, 4])
def test_wrong_argmaxes_are_caught_without_a_list_of_outputs(task, message, n):
    X, Y = (WORDS, TAGS) if isinstance(task, TinyChain) else (VECTORS, CLASSES)
    with pytest.raises(AssertionError, match=message):
        check_task(task, [x.copy() for x in X[:n]], Y[:n])


class Segment(Task):
    """A part (start, stop) of a list of numbers: the outputs of a longer input are none of a shorter one."""

    def setup(self, X, Y):
        return 2

    def outputs(self, x):
        return [(a, b) for a in range(len(x)) for b in range(a + 1, len(x) + 1)]

    def joint_feature(self, x, y):
        return np.array([x[y[0] : y[1]].sum(), float(y[1] - y[0])])

    def loss(self, y, y_hat):
        return float(abs(y[0] - y_hat[0]) + abs(y[1] - y_hat[1]))

    def inference(self, x, w):
        return max(self.outputs(x), key=lambda o: self.joint_feature(x, o) @ w)

    def loss_augmented_inference(self, x, y, w):
        return max(self.outputs(x), key=lambda o: self.loss(y, o) + self.joint_feature(x, o) @ w)


class SegmentWithoutLoss(Segment):
    def loss_augmented_inference(self, x, y, w):
        return self.inference(x, w)


def test_outputs_of_longer_inputs_do_not_accuse_a_right_task():
    X = [RNG.normal(size=n) for n in (3, 9, 5, 12)]
    Y = [(0, 2), (4, 9), (1, 5), (8, 12)]
    check_task(Segment(), X, Y)
    sentence = (
        r"^loss_augmented_inference .* does not return the output with the largest loss plus score"
    )
    with pytest.raises(AssertionError, match=sentence) as error:
        check_task(SegmentWithoutLoss(), X, Y)
    lines = str(error.value).splitlines()  # the outputs may be long, so they are below the sentence
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["returned", "better"]
