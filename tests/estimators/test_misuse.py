"""What a newcomer gets wrong is refused in the words that were used, with what to use instead."""

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss
from tests.latent_tasks import Bags
from tests.tiny_tasks import TinyMulticlass

from maxmargin import (
    KernelSVC,
    LatentStructuredSVM,
    LinearSVC,
    LinearSVCCV,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
    minimize,
)
from maxmargin.callbacks import Progress
from maxmargin.engines import ProcessEngine, ThreadEngine, opened
from maxmargin.kernels import Nystrom
from maxmargin.losses import FBeta, Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import AbsoluteGap, CuttingPlane, DualCoordinate
from maxmargin.tasks import Enumerable

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.where(X[:, 0] > 0, 1, -1)
EXAMPLES, CLASSES = list(X), (X.argmax(axis=1)).tolist()
BAGS = [X[3 * k : 3 * k + 3] for k in range(10)]


# -- a class where an object belongs ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("fit", "match"),
    [
        (lambda: StructuredSVM(TinyMulticlass), r"task=TinyMulticlass is a class.*task=TinyMulticlass\("),
        (lambda: LinearSVC(solver=DualCoordinate).fit(X, Y), r"solver=DualCoordinate\(\.\.\.\)"),
        (
            lambda: SequenceTagger(solver=DualCoordinate).fit([[["a"]]], [["A"]]),
            "solver=DualCoordinate is a class",
        ),
        (
            lambda: StructuredSVM(TinyMulticlass(), solver=DualCoordinate).fit(EXAMPLES, CLASSES),
            "solver=DualCoordinate is a class",
        ),
        (lambda: LinearSVC(loss=Hinge).fit(X, Y), "loss=Hinge is a class"),
        (lambda: LinearSVC(tol=AbsoluteGap, loss="hinge").fit(X, Y), "tol=AbsoluteGap is a class"),
        (lambda: LinearSVC(engine=ThreadEngine, loss="hinge").fit(X, Y), "engine=ThreadEngine is a class"),
        (lambda: LinearSVC(callbacks=[Progress]).fit(X, Y), r"callbacks\[0\]=Progress is a class"),
        (lambda: MeasureSVC(FBeta).fit(X, Y), "measure=FBeta is a class"),
        (lambda: KernelSVC(method=Nystrom).fit(X, Y), "method=Nystrom is a class"),
        (
            lambda: minimize(ScoreRisk(X, Y.astype(float), Hinge()), C=1.0, solver=CuttingPlane),
            "solver=CuttingPlane is a class",
        ),
        (lambda: opened(ProcessEngine, 2).__enter__(), "engine=ProcessEngine is a class"),
        (lambda: StructuredSVM("chain"), "task is a str without setup, joint_feature"),
    ],
)  # fmt: skip
def test_a_class_is_not_an_object(fit, match):
    with pytest.raises(TypeError, match=match):
        fit()


@pytest.mark.parametrize(
    ("fit", "match"),
    [
        (lambda: RankSVM().fit(X[:4], Y[:4], ["a", None, "a", "b"]), "a query for every sample"),
        (
            lambda: StructuredSVM(Enumerable()).fit([np.eye(2)] * 2, [0.5, 1]),
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


# -- parameters of other libraries -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "params", "match"),
    [
        (LinearSVC, {"kernel": "rbf"}, r"maxmargin\.KernelSVC"),
        (LinearSVC, {"alpha": 1e-4}, "use C"),
        (LinearSVC, {"maxiter": 3}, "did you mean 'max_iter'"),
        (LinearSVCCV, {"penalty": "l1"}, "the regularizer is"),
        (SequenceTagger, {"all_possible_transitions": True}, "all transitions have weights"),
        (MeasureSVC, {"metric": "f1"}, "use measure"),
    ],
)
def test_parameters_of_other_libraries_are_named_with_ours(cls, params, match):
    with pytest.raises(TypeError, match=match):
        cls(**params)
    with pytest.raises(ValueError, match=match.split(": ")[-1]):
        cls().set_params(**params)


def test_a_subclass_may_take_any_names():
    class Mine(LinearSVC):
        def __init__(self, **params):
            super().__init__(C=params.get("penalty", 1.0))

    assert Mine(penalty=2.0).C == 2.0


# -- measures of another signature -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("measure", "error", "match"),
    [
        (
            f1_score,
            TypeError,
            r"measure=f1_score has the signature \(y_true.*\(tp, fp, fn, tn\).*measure='f1'",
        ),
        (log_loss, TypeError, r"measure=log_loss has the signature \(y_true.*\(tp, fp, fn, tn\)"),
        (lambda tp, fp: 0.0, TypeError, r"has the signature \(tp, fp\), but"),
        (lambda tp, fp, fn, tn: None, TypeError, "returned None for tp="),
        (lambda tp, fp, fn, tn: "x", TypeError, "returned 'x' for tp="),
        (lambda tp, fp, fn, tn: tp, ValueError, "for a confusion matrix without errors"),
        ("accuracy", ValueError, "use 'error'"),
        ("f1_score", ValueError, "use 'f1'"),
    ],
)
def test_a_measure_takes_four_counts(measure, error, match):
    with pytest.raises(error, match=match):
        MeasureSVC(measure).fit(X, Y)


# -- argmaxes --------------------------------------------------------------------------------------


class NoReturn(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        super().loss_augmented_inference(x, y, w)


class NoSlackReturn(TinyMulticlass):
    def slack_augmented_inference(self, x, y, w):
        super().slack_augmented_inference(x, y, w)


class NoPrediction(TinyMulticlass):
    def inference(self, x, w):
        super().inference(x, w)


class WrongSign(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        return max(self.outputs(x), key=lambda o: self._score(x, o, w) - self.loss(y, o))


class Truth(TinyMulticlass):
    def loss_augmented_inference(self, x, y, w):
        return y

    def slack_augmented_inference(self, x, y, w):
        return y


def test_an_argmax_that_returns_none_is_named():
    with pytest.raises(
        TypeError, match=r"NoReturn\.loss_augmented_inference returned None for example \d"
    ):
        StructuredSVM(NoReturn()).fit(EXAMPLES, CLASSES)
    with pytest.raises(TypeError, match=r"NoSlackReturn\.slack_augmented_inference returned None"):
        StructuredSVM(NoSlackReturn(), rescaling="slack").fit(EXAMPLES, CLASSES)
    svm = StructuredSVM(NoPrediction()).fit(EXAMPLES, CLASSES)
    with pytest.raises(TypeError, match=r"NoPrediction\.inference returned None"):
        svm.predict(EXAMPLES)


class NoPair(Bags):
    def loss_augmented_inference(self, x, y, w):
        return None


def test_a_latent_argmax_returns_a_pair():
    with pytest.raises(
        TypeError, match=r"NoPair\.loss_augmented_inference returned None: .*a pair"
    ):
        LatentStructuredSVM(NoPair()).fit(BAGS, [0, 1] * 5)


@pytest.mark.parametrize("solver", ["auto", CuttingPlane()], ids=["sets", "planes"])
def test_an_argmax_that_only_returns_true_outputs_is_warned_about(solver):
    for svm in (
        StructuredSVM(WrongSign(), solver=solver),
        StructuredSVM(Truth(), solver=solver),
        StructuredSVM(Truth(), rescaling="slack", solver=solver),
    ):
        with pytest.warns(
            UserWarning, match=r"nothing but the true outputs.*plus sign.*check_task"
        ):
            svm.fit(EXAMPLES, CLASSES)


def test_no_warning_where_the_argmax_is_right():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = StructuredSVM(TinyMulticlass()).fit(EXAMPLES, CLASSES)
        # a start where nothing is violated: the objective is 0, and rightly so
        fixed = {k: 1e4 * v for k, v in enumerate(first.coef_)}
        again = StructuredSVM(TinyMulticlass(), fixed=fixed).fit(EXAMPLES, first.predict(EXAMPLES))
    assert again.objective_ == 0.0


# -- tasks of a notebook ---------------------------------------------------------------------------

NOTEBOOK = """
import sys
import numpy as np
from maxmargin import StructuredSVM
from maxmargin.tasks import Task
{before}

class Output:
    def __init__(self, k):
        self.k = k
    def __eq__(self, other):
        return self.k == other.k
    def __hash__(self):
        return hash(self.k)

class Mine(Task):
    def setup(self, X, Y):
        self.outputs = [Output(k) for k in range(3)]
        return 9
    def joint_feature(self, x, y):
        psi = np.zeros((3, 3))
        psi[y.k] = x
        return psi.ravel()
    def loss(self, y, y_hat):
        return float(y.k != y_hat.k)
    def inference(self, x, w):
        return max(self.outputs, key=lambda o: self.joint_feature(x, o) @ w)
    def loss_augmented_inference(self, x, y, w):
        return max(self.outputs, key=lambda o: self.loss(y, o) + self.joint_feature(x, o) @ w)

X = list(np.random.default_rng(0).normal(size=(40, 3)))
Y = [Output(int(x.argmax())) for x in X]
one = StructuredSVM(Mine()).fit(X, Y)
try:
    two = StructuredSVM(Mine(), engine="processes", n_jobs=2).fit(X, Y)
except Exception as error:
    print(type(error).__name__, error)
else:
    print("same bits", one.coef_.tobytes() == two.coef_.tobytes(), two.converged_)
"""


def at_a_prompt(before=""):
    """Run as in a notebook: there is no file that workers could import."""
    code = textwrap.dedent(NOTEBOOK).replace("{before}", before)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_task_of_a_notebook_is_sent_to_processes_by_value():
    pytest.importorskip("cloudpickle")
    assert at_a_prompt() == "same bits True True\n"


def test_without_cloudpickle_the_error_names_it():
    said = at_a_prompt("sys.modules['cloudpickle'] = None")
    assert said.startswith("TypeError task: Mine is defined in a notebook or at a prompt")
    assert "pip install cloudpickle" in said
    assert "engine='threads'" in said
