"""Taggers with the logistic loss: certified, with true probabilities, and clear refusals."""

import copy
import itertools
import tempfile
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from maxmargin import GaussianPrior, SequenceTagger
from maxmargin.kernels import Nystrom
from maxmargin.solvers import CuttingPlane, DualCoordinate


def sequences(n=40, seed=0):
    """Noisy labels of a chain over three labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = np.cumsum(rng.integers(0, 2, size=rng.integers(1, 5))) % 3
        X.append(np.eye(3)[labels] + rng.normal(scale=0.7, size=(len(labels), 3)))
        y.append(["abc"[k] for k in labels])
    return X, y


X, Y = sequences()


def logistic(**params):
    return SequenceTagger(**{"C": 1.0, "tol": 1e-6, "loss": "logistic", **params})


@pytest.fixture(scope="module")
def tagger():
    return logistic().fit(X, Y)


def scores_of_all(tagger, x):
    """The score of every labeling, by the attributes of the tagger."""
    nodes = x @ tagger.coef_.T
    for z in itertools.product(range(len(tagger.classes_)), repeat=len(x)):
        score = (
            tagger.starts_[z[0]] + tagger.stops_[z[-1]] + nodes[np.arange(len(z)), list(z)].sum()
        )
        yield z, score + sum(tagger.transitions_[a, b] for a, b in itertools.pairwise(z))


def test_the_objective_is_that_of_a_conditional_random_field(tagger):
    total = 0.5 * tagger.weights_ @ tagger.weights_
    for x, labels in zip(X, Y, strict=True):
        scores = dict(scores_of_all(tagger, x))
        truth = tuple(tagger.classes_.index(label) for label in labels)
        total += np.log(np.exp(list(scores.values())).sum()) - scores[truth]
    assert tagger.objective_ == pytest.approx(total, rel=1e-10)
    assert tagger.lower_bound_ <= total
    assert (tagger.converged_, tagger.certificate_, tagger.stop_reason_) == (True, "exact", "gap")


def test_no_point_is_below_the_lower_bound(tagger):
    """The gradient at the solution, by differences of log_probability, is nearly 0."""
    other = clone(tagger).fit(X, Y)

    def value(w):
        other.weights_ = w
        return 0.5 * w @ w - other.C * other.log_probability(X, Y).sum()

    w, h = tagger.weights_, 1e-4
    gradient = np.array([(value(w + h * e) - value(w - h * e)) / (2 * h) for e in np.eye(len(w))])
    assert value(w - gradient) >= tagger.lower_bound_
    # 1/2 |gradient|^2 bounds the distance to the optimum, and the proved gap is at most tol
    assert tagger.lower_bound_ <= value(w) <= tagger.lower_bound_ * (1 + 2e-6)


def test_marginals_and_log_probabilities_are_sums_over_labelings(tagger):
    marginals, logs = tagger.predict_marginals(X), tagger.log_probability(X, Y)
    for i, x in enumerate(X[:10]):
        labelings, scores = zip(*scores_of_all(tagger, x), strict=True)
        p = np.exp(scores - np.max(scores))
        p /= p.sum()
        own = np.zeros((len(x), 3))
        for share, z in zip(p, labelings, strict=True):
            own[np.arange(len(x)), list(z)] += share
        np.testing.assert_allclose(marginals[i], own, atol=1e-12)
        truth = tuple(tagger.classes_.index(label) for label in Y[i])
        assert np.exp(logs[i]) == pytest.approx(p[labelings.index(truth)])


@pytest.mark.parametrize("size", [1e-9, 1.0, 40.0, 1e4])
def test_probabilities_are_those_of_arithmetic_with_sixty_digits(tagger, size):
    """Sums over all labelings in decimal arithmetic: scores of any size neither overflow nor cancel."""
    tagger = copy.deepcopy(tagger)
    rng = np.random.default_rng(1)
    tagger.weights_[:] = np.round(size * rng.normal(size=tagger.weights_.shape), 10)
    x = np.round(X[0], 10)
    logs = tagger.log_probability([x], [Y[0]])[0]
    marginals = tagger.predict_marginals([x])[0]
    truth = tuple(tagger.classes_.index(label) for label in Y[0])
    with localcontext() as context:
        context.prec = 60
        scores = dict(exact_scores(tagger, x))
        top = max(scores.values())
        weights = {z: (score - top).exp() for z, score in scores.items()}
        total = sum(weights.values())
        assert logs == pytest.approx(float(scores[truth] - top - total.ln()), abs=1e-14 * size * 50)
        for t, k in itertools.product(range(len(x)), range(len(tagger.classes_))):
            exact = sum(weight for z, weight in weights.items() if z[t] == k) / total
            # a relative error, down to probabilities that a double cannot hold
            assert marginals[t, k] == pytest.approx(float(exact), rel=1e-13 * max(1.0, size))


def exact_scores(tagger, x):
    """The score of every labeling, in decimal arithmetic."""
    for z in itertools.product(range(len(tagger.classes_)), repeat=len(x)):
        pairs = [(v, tagger.coef_[k, j]) for t, k in enumerate(z) for j, v in enumerate(x[t])]
        ends = [tagger.starts_[z[0]], tagger.stops_[z[-1]]]
        ends += [tagger.transitions_[a, b] for a, b in itertools.pairwise(z)]
        yield (
            z,
            sum(Decimal(float(a)) * Decimal(float(b)) for a, b in pairs)
            + sum(Decimal(float(v)) for v in ends),
        )


def test_k_best_with_probabilities(tagger):
    for x, best in zip(X, tagger.predict_k_best(X, 100, probabilities=True), strict=True):
        labelings, shares = zip(*best, strict=True)
        assert sum(shares) == pytest.approx(1.0)  # 3, 9, 27 or 81 labelings
        assert list(shares) == sorted(shares, reverse=True)
        logs = tagger.log_probability([x] * len(best), labelings)
        np.testing.assert_allclose(np.exp(logs), shares, rtol=1e-9)


def test_confidence_is_the_marginal_of_the_predicted_label(tagger):
    for labels, own, all_of_them in zip(
        tagger.predict(X), tagger.predict_confidence(X), tagger.predict_marginals(X), strict=True
    ):
        codes = [tagger.classes_.index(label) for label in labels]
        np.testing.assert_array_equal(own, all_of_them[np.arange(len(codes)), codes])


def test_calibration_takes_precedence():
    tagger = logistic().fit(X, Y).calibrate(*sequences(60, seed=1), method="sigmoid")
    marginals = np.concatenate(tagger.predict_marginals(X)).max(axis=1)
    assert not np.allclose(np.concatenate(tagger.predict_confidence(X)), marginals)


def test_probabilities_are_calibrated_on_average():
    """At the optimum, expected and observed numbers of labels differ by w / C: here by little."""
    tagger = logistic(C=100.0).fit(X, Y)
    expected = np.concatenate(tagger.predict_marginals(X)).sum(axis=0)
    observed = [sum(labels.count(label) for labels in Y) for label in tagger.classes_]
    np.testing.assert_allclose(expected, observed, atol=1.0)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("forbidden", [None, "unseen"])
def test_solvers_agree(order, forbidden):
    params = {"order": order, "forbidden_transitions": forbidden}
    auto = logistic(**params).fit(X, Y)
    planes = logistic(solver=CuttingPlane(), tol=1e-4, **params).fit(X, Y)
    assert auto.converged_
    assert planes.converged_
    assert planes.lower_bound_ <= auto.objective_
    assert auto.lower_bound_ <= planes.objective_
    marginals = auto.predict_marginals(X)
    assert all(np.allclose(own.sum(axis=1), 1.0) for own in marginals)
    if forbidden is None and order == 1:
        return
    seen = {pair for labels in Y for pair in itertools.pairwise(labels)}
    if forbidden:
        assert ("a", "c") not in seen
        assert auto.log_probability([np.zeros((2, 3))], [["a", "c"]])[0] == -np.inf
    best = auto.predict_k_best(X[:5], 100, probabilities=True)
    assert all(sum(share for _, share in own) == pytest.approx(1.0) for own in best)


def test_forms_of_the_data_agree(tagger):
    lengths = [len(x) for x in X]
    flat = logistic().fit(
        np.concatenate(X), [label for labels in Y for label in labels], lengths=lengths
    )
    assert flat.weights_.tobytes() == tagger.weights_.tobytes()
    stacked = flat.predict_marginals(np.concatenate(X), lengths=lengths)
    np.testing.assert_array_equal(stacked, np.concatenate(tagger.predict_marginals(X)))
    again = logistic(n_jobs=2).fit(X, Y)
    assert again.weights_.tobytes() == tagger.weights_.tobytes()


def test_kernel():
    found = logistic(kernel="rbf", kernel_method=Nystrom(20), tol=1e-3).fit(X, Y)
    assert found.restricted_gap_ <= 1e-3
    assert found.score(X, Y) > 0.7
    assert all(np.allclose(own.sum(axis=1), 1.0) for own in found.predict_marginals(X))


@pytest.mark.parametrize(
    ("params", "fit", "message"),
    [
        ({"cost": {"a": 2.0}}, {}, "does not support cost"),
        ({}, {"token_weight": [np.ones(len(x)) for x in X]}, "does not support token_weight"),
        ({"partial": "complete"}, {}, "not convex"),
        ({"rescaling": "slack"}, {}, "does not support rescaling"),
        ({"kernel": "rbf", "kernel_method": "sampled"}, {}, "does not support kernel_method"),
        ({"solver": DualCoordinate(batch_size="all")}, {}, "does not support solver"),
    ],
)
def test_refusals(params, fit, message):
    with pytest.raises(ValueError, match=message):
        logistic(**params).fit(X, Y, **fit)


def test_other_losses_have_no_probabilities():
    hinge = SequenceTagger().fit(X, Y)
    assert not hasattr(hinge, "predict_marginals")
    with pytest.raises(AttributeError, match="no attribute 'log_probability'") as error:
        hinge.log_probability(X, Y)
    assert "loss='logistic'" in str(error.value)
    with pytest.raises(AttributeError, match="loss='logistic'"):
        hinge.predict_k_best(X, 2, probabilities=True)
    with pytest.raises(NotFittedError, match="calibrate"):
        hinge.predict_confidence(X)


def test_log_probability_of_labels_that_cannot_be(tagger):
    assert tagger.log_probability([X[0]], [["z"] * len(X[0])])[0] == -np.inf
    with pytest.raises(ValueError, match="sequence 0 has no label"):
        tagger.log_probability([X[0]], [[None] * len(X[0])])


@pytest.mark.parametrize("order", [1, 2])
def test_a_single_label_has_probability_1(order):
    """Then F* = 0, and no rounding may hide it."""
    ones = [["a"] * len(x) for x in X]
    found = logistic(order=order).fit(X, ones)
    assert (found.objective_, found.gap_) == (0.0, 0.0)
    assert found.log_probability(X, ones).tolist() == [0.0] * len(X)
    assert all((own == 1.0).all() for own in found.predict_marginals(X))


def test_empty_sequences(tagger):
    assert tagger.log_probability([np.empty((0, 3))], [[]]).tolist() == [0.0]
    assert tagger.predict_marginals([np.empty((0, 3))])[0].shape == (0, 3)


def test_crfsuite_finds_the_same_model():
    """Its optimum, without start and stop weights, is not below our lower bound, and is near our optimum for
    a prior that keeps these weights at 0; its marginals are those of the same weights here."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    # nonnegative: crfsuite drops features whose values have a negative sum
    tokens = [[{f"x{k}": abs(float(v)) for k, v in enumerate(row)} for row in x] for x in X]
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({
        "c2": 0.5, "feature.possible_states": True, "feature.possible_transitions": True,
        "epsilon": 1e-9, "delta": 1e-12, "max_iterations": 1000,
    })  # fmt: skip
    for x, labels in zip(tokens, Y, strict=True):
        trainer.append(x, labels)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        crf = pycrfsuite.Tagger()
        crf.open(path)
        info = crf.info()
        ours = logistic().fit(tokens, Y)
        names, K = list(ours.vectorizer_.feature_names_), len(ours.classes_)
        w = np.zeros_like(ours.weights_)
        for (name, label), value in info.state_features.items():
            w[names.index(name) * K + ours.classes_.index(label)] = value
        for (a, b), value in info.transitions.items():
            w[len(names) * K + ours.classes_.index(a) * K + ours.classes_.index(b)] = value
        F = 0.5 * w @ w
        ours.weights_ = w
        F -= ours.log_probability(tokens, Y).sum()
        for x, own in zip(tokens, ours.predict_marginals(tokens), strict=True):
            crf.set(x)
            for t, label in itertools.product(range(len(x)), ours.classes_):
                assert crf.marginal(label, t) == pytest.approx(
                    own[t, ours.classes_.index(label)], abs=1e-6
                )
    assert ours.lower_bound_ <= F
    d = len(names) * K + K * K
    narrow = np.concatenate([np.ones(d), np.full(2 * K, 1e-8)])
    x = [np.array([[token[name] for name in names] for token in own]) for own in tokens]
    same = logistic(prior=GaussianPrior(mean=np.zeros(len(w)), variance=narrow)).fit(x, Y)
    assert same.lower_bound_ <= F * (1 + 1e-6)
    assert same.objective_ == pytest.approx(F, rel=1e-5)
