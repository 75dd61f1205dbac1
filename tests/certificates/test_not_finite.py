"""Numbers that are not finite are never certified: input validation names them, and the solver's loop detects
those that come from user code."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import (
    GaussianPrior,
    GraphLabeler,
    KernelSVC,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
    minimize,
)
from maxmargin.data import DenseDesign, KernelDesign, hstack
from maxmargin.kernels import RBF, NystromMap
from maxmargin.losses import (
    EpsilonInsensitive,
    FBeta,
    Hinge,
    Logistic,
    OneClass,
    ScoreLoss,
    SquaredHinge,
)
from maxmargin.risks import KernelRisk, ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import (
    Chain,
    Enumerable,
    Graph,
    IntegerProgram,
    Task,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = np.where(X[:, 0] + 0.3 * RNG.normal(size=30) > 0, 1.0, -1.0)
NAMED = r"in row 7, column 2\."
NUMBERS = pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])


def spoiled(number=np.nan):
    out = X.copy()
    out[7, 2] = number
    return out


class Products:
    """User-defined features: products only, without a check of the numbers."""

    def __init__(self, rows):
        self.rows, self.shape, self.nnz = rows, rows.shape, rows.size

    def dot(self, W, lo, hi):
        return self.rows[lo:hi] @ W

    def accumulate(self, coef, lo, hi, out):
        out += self.rows[lo:hi].T @ coef


class Shown(Products):
    """The same with access to its rows."""

    def block(self, lo, hi):
        return DenseDesign(self.rows[lo:hi])


ESTIMATORS = [LinearSVC(loss="hinge"), LinearSVR(), MeasureSVC(), RankSVM(), KernelSVC()]


@NUMBERS
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_estimators_name_row_and_column(estimator, kind, number):
    with pytest.raises(ValueError, match=f"{number} {NAMED}"):
        estimator.fit(kind(spoiled(number)), Y)


@NUMBERS
def test_risks_and_designs_name_row_and_column(number):
    features = NystromMap(RBF(1.0), X[:5])
    for make in (
        lambda Z: ScoreRisk(Z, Y, Hinge()),
        lambda Z: KernelRisk(RBF(1.0), Z, Y),
        lambda Z: NystromMap(RBF(1.0), Z),
        lambda Z: KernelDesign(features, Z),
        lambda Z: hstack([X, Z]),
        lambda Z: LinearSVC(loss="hinge").fit(
            DenseDesign(np.asarray(Z.todense()) if sp.issparse(Z) else Z), Y
        ),
        lambda Z: LinearSVC(loss="hinge").partial_fit(Z, Y, classes=[-1.0, 1.0]),
        lambda Z: LinearSVCCV(cv=2, loss="hinge").fit(Z, Y),
        lambda Z: LinearSVC(loss="hinge").fit(X, Y).predict(Z),
        lambda Z: KernelSVC().fit(X, Y).predict(Z),
    ):
        for kind in (np.asarray, sp.csr_matrix):
            with pytest.raises(ValueError, match=f"{number} {NAMED}"):
                make(kind(spoiled(number)))
    with pytest.raises(ValueError, match=r"^part 1: "):
        hstack([X, spoiled(number)])


def test_data_frames_are_named_by_their_columns():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"nan in row 7, column 2 \('age'\)"):
        LinearSVC(loss="hinge").fit(pd.DataFrame(spoiled(), columns=["a", "b", "age", "c"]), Y)


@NUMBERS
@pytest.mark.parametrize(
    "loss", [Hinge(), FBeta(), Logistic(), OneClass(), EpsilonInsensitive(0.1)]
)
def test_designs_of_others_are_noticed_in_the_loop(loss, number):
    """Compiled losses ignore NaN: max(0, nan) is 0."""
    with pytest.raises(ValueError, match="a score is NaN or infinite"):
        minimize(ScoreRisk(Products(spoiled(number)), Y, loss), C=1.0)


@NUMBERS
@pytest.mark.parametrize("solver", [CuttingPlane(), DualCoordinate(), CuttingPlane(space="rows")])
def test_every_solver_notices(solver, number):
    with pytest.raises(ValueError, match=r"NaN|not a number|not finite"):
        minimize(ScoreRisk(Shown(spoiled(number)), Y, Hinge()), C=1.0, solver=solver)


@pytest.mark.parametrize("estimator", ESTIMATORS[:4], ids=lambda e: type(e).__name__)
def test_estimators_notice_designs_of_others(estimator):
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(Products(spoiled()), Y)
    with pytest.raises(ValueError, match="row 7 is NaN or infinite"):
        getattr(
            estimator.fit(X, Y), "predict" if hasattr(estimator, "predict") else "decision_function"
        )(Products(spoiled()))


def test_streams_notice_designs_of_others():
    with pytest.raises(ValueError, match=NAMED):
        LinearSVC(loss="hinge").partial_fit(Shown(spoiled()), Y, classes=[-1.0, 1.0])
    fitted = LinearSVC(loss="hinge").partial_fit(X, Y, classes=[-1.0, 1.0])
    with pytest.raises(ValueError, match="NaN"):
        fitted.verify(Products(spoiled()), Y)


def test_a_transposed_product_that_is_not_finite():
    class Spoils(Products):
        def accumulate(self, coef, lo, hi, out):
            out += np.inf

    with pytest.raises(ValueError, match="the plane of a cut is not finite"):
        minimize(ScoreRisk(Spoils(X), Y, Hinge()), C=1.0)


class Mine(ScoreLoss):
    """A user-defined hinge loss with an error."""

    def __init__(self, wrong):
        self.wrong, self.calls = wrong, 0

    def cut(self, scores, y, weight):
        self.calls += 1
        violated = 1.0 - y * scores > 0.0
        offset, gradient = float(weight @ violated), -weight * y * violated
        if self.wrong == "late" and self.calls > 5:
            gradient[0] = np.nan
        return (np.nan if self.wrong == "offset" else offset), gradient

    def value(self, scores, y, weight):
        if self.wrong == "value":
            return float("nan")
        return float(weight @ np.maximum(0.0, 1.0 - y * scores))

    def slopes(self, scores, other, y, weight, ts):
        if self.wrong == "slopes":
            return np.full(len(ts), np.nan)
        return super().slopes(scores, other, y, weight, ts)

    def breakpoints(self, *line):
        return (np.array([np.nan]), np.ones(1)) if self.wrong == "kinks" else None


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ("offset", "Mine has a cut that is not finite"),
        ("late", "the slope is not a number|Mine has a cut that is not finite"),
        ("value", "Mine has a value nan that is not finite"),
        ("slopes", "the slope is not a number"),
        ("kinks", "kink is not a number"),
    ],
)
def test_losses_of_users(wrong, text):
    assert minimize(ScoreRisk(X, Y, Mine("")), C=1.0).converged
    with pytest.raises(ValueError, match=text):
        minimize(ScoreRisk(X, Y, Mine(wrong)), C=1.0)


class Sign(Task):
    """A user-defined task with two outputs, whose features or losses are not finite."""

    def __init__(self, wrong=""):
        self.wrong = wrong

    def setup(self, X, Y):
        return 4

    def joint_feature(self, x, y):
        out = x if y else -x
        return np.where(np.arange(4) == 1, np.nan, out) if self.wrong == "features" and y else out

    def loss(self, y, y_hat):
        return float("nan") if self.wrong == "loss" and y != y_hat else float(y != y_hat)

    def inference(self, x, w):
        return int(x @ w > 0)

    def loss_augmented_inference(self, x, y, w):
        return int(np.argmax([(y != k) + (x @ w) * (1 if k else -1) for k in (0, 1)]))


@pytest.mark.parametrize("solver", [CuttingPlane(), DualCoordinate()])
def test_tasks_of_users(solver):
    labels = [int(y > 0) for y in Y]
    assert StructuredSVM(Sign(), solver=solver).fit(list(X), labels).converged_
    with pytest.raises(ValueError, match=r"joint features of example \d+ give a score of nan"):
        StructuredSVM(Sign("features"), solver=solver).fit(list(X), labels)
    with pytest.raises(ValueError, match=r"= nan for example \d+"):
        StructuredSVM(Sign("loss"), solver=solver).fit(list(X), labels)


def test_features_of_tokens_are_named():
    tokens = [[{"a": 1.0}, {"a": 2.0}], [{"a": 1.0, "size": float("nan")}]]
    with pytest.raises(ValueError, match=r"'size' is nan in sequence 1, token 0"):
        SequenceTagger().fit(tokens, [["x", "y"], ["y"]])
    tagger = SequenceTagger().fit([[{"a": 1.0}, {"a": 2.0}], [{"a": 1.0}]], [["x", "y"], ["y"]])
    with pytest.raises(ValueError, match=r"'a' is inf in sequence 0, token 1"):
        tagger.predict([[{"a": 1.0}, {"a": float("inf")}]])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_inputs_of_tasks_are_named(kind):
    good, bad = kind(X[:5]), kind(spoiled()[5:10])  # the entry is in its row 2
    labels, place = [0, 1, 0, 1, 0], "sequence 1.* token 2, column 2"
    with pytest.raises(ValueError, match=place):
        SequenceTagger().fit([good, bad], [labels, labels])
    with pytest.raises(ValueError, match=place):
        StructuredSVM(Chain(2, 4)).fit([good, bad], [labels, labels])
    with pytest.raises(ValueError, match="token 2, column 2"):
        StructuredSVM(Chain(2, 4)).fit([good, good], [labels, labels]).predict([bad])
    with pytest.raises(ValueError, match=r"example 1.* candidate 2, column 2"):
        StructuredSVM(Enumerable()).fit([good, bad], [0, 1])
    with pytest.raises(ValueError, match="candidate 2, column 2"):
        StructuredSVM(Enumerable()).fit([good, good], [0, 1]).predict([bad])
    with pytest.raises(ValueError, match="features: nan in row 2, column 2"):
        GraphLabeler().fit([Graph(bad, [[0, 1]])], [labels])
    with pytest.raises(ValueError, match="'features': nan in row 2, column 2"):
        StructuredSVM(IntegerProgram()).fit([{"features": bad}], [labels])


def test_other_numbers():
    with pytest.raises(ValueError, match=re.escape("prior: the matrix: nan in row 3, column 3")):
        GaussianPrior(covariance=sp.diags([1.0, 1.0, 1.0, np.nan]))
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        KernelRisk(RBF(1.0), X, Y, sample_weight=np.where(Y > 0, np.nan, 1.0))
    with pytest.raises(ValueError, match="NaN or infinite"):
        minimize(ScoreRisk(X, Y, Hinge()), C=1.0, w0=np.full(4, np.nan))


def test_sums_that_overflow_are_finite_all_the_same():
    """Finite entries whose sum is infinite must not be refused."""
    large = np.full((4, 2), 1e308)
    large[2:] *= -1.0
    assert LinearSVC(tol=0.1, max_iter=1, loss="hinge").fit(
        1e-300 * large, [1, 1, 0, 0]
    ).coef_.shape == (1, 2)
    assert ScoreRisk(large, np.array([1.0, 1.0, -1.0, -1.0]), Hinge()).dim == 2


def test_a_design_in_memory_is_as_good_as_its_matrix():
    assert (
        LinearSVC(loss="hinge").fit(DenseDesign(X), Y).objective_
        == LinearSVC(loss="hinge").fit(X, Y).objective_
    )


def test_the_error_about_a_loss_that_overflows_names_the_features():
    X = 1e150 * np.random.default_rng(0).normal(size=(40, 3))
    risk = ScoreRisk(X, np.where(X[:, 0] > 0.0, 1.0, -1.0), SquaredHinge())
    with pytest.raises(ValueError, match=r"features or targets are too large \(scale them"):
        risk.evaluate(np.full(3, 1e10)).cut()
