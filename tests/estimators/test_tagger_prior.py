"""A prior around an earlier tagger: weights go to the features and labels of the same name."""

import numpy as np
import pytest

from maxmargin import GaussianPrior, SequenceTagger

X = [[["w=a"], ["w=b"]], [["w=b"], ["w=c"]], [["w=a"], ["w=c"]]]
Y = [["P", "Q"], ["Q", "P"], ["P", "P"]]


@pytest.fixture(scope="module")
def old():
    return SequenceTagger(C=1.0).fit(X, Y)


def weight_of(tagger, feature, label):
    column = tagger.vectorizer_.feature_names_.index(feature)
    return tagger.coef_[tagger.states_.index(label), column]


@pytest.mark.parametrize("order", [1, 2])
def test_weights_are_assigned_by_name_and_label(order):
    old = SequenceTagger(C=1.0, order=order).fit(X, Y)
    prior = GaussianPrior.around(old)
    # C is so small that the weights stay at the center; "w=e" and "R" are new, "w=a" and "P" are gone
    new = SequenceTagger(C=1e-12, prior=prior, order=order).fit(
        [[["w=e"], ["w=b"], ["w=c"]]], [["R", "Q", "Q"]]
    )
    for state in new.states_:
        for name in new.vectorizer_.feature_names_:
            known = state in old.states_ and name in old.vectorizer_.feature_names_
            expected = weight_of(old, name, state) if known else 0.0
            assert weight_of(new, name, state) == pytest.approx(expected, abs=1e-9)
    both = [state for state in new.states_ if state in old.states_]
    assert both
    here = [new.states_.index(state) for state in both]
    there = [old.states_.index(state) for state in both]
    np.testing.assert_allclose(
        new.transitions_[np.ix_(here, here)], old.transitions_[np.ix_(there, there)], atol=1e-9
    )
    np.testing.assert_allclose(new.starts_[here], old.starts_[there], atol=1e-9)
    np.testing.assert_allclose(new.stops_[here], old.stops_[there], atol=1e-9)


def test_a_flat_center_is_refused_where_features_have_names(old):
    with pytest.raises(ValueError, match=r"GaussianPrior.around\(tagger\)"):
        SequenceTagger(prior=GaussianPrior(mean=old.weights_)).fit(X, Y)


def test_features_without_names_need_the_same_number():
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(4, 3)) for _ in range(5)]
    labels = [["P", "Q", "P", "Q"]] * 5
    old = SequenceTagger().fit(rows, labels)
    again = SequenceTagger(C=1e-12, prior=GaussianPrior.around(old)).fit(rows, labels)
    np.testing.assert_allclose(again.weights_, old.weights_, atol=1e-9)
    with pytest.raises(ValueError, match="has 3 features and X has 2"):
        SequenceTagger(prior=GaussianPrior.around(old)).fit([x[:, :2] for x in rows], labels)
    with pytest.raises(ValueError, match="same form"):
        SequenceTagger(prior=GaussianPrior.around(old)).fit(X, Y)


def test_a_kernel_has_no_weights_of_features():
    rng = np.random.default_rng(0)
    rows, labels = [rng.normal(size=(4, 3)) for _ in range(5)], [["P", "Q", "P", "Q"]] * 5
    with pytest.raises(ValueError, match="kernel"):
        GaussianPrior.around(SequenceTagger(kernel="rbf").fit(rows, labels))
