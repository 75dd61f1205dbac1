"""The largest weights of a tagger, as text, as data frames, and as plots."""

import sys

import numpy as np
import pytest

from maxmargin import SequenceTagger
from maxmargin.inspection import TaggerExplanation

X = [[["w=the"], ["w=old", "end=ld"], ["w=cat"]], [["w=a"], ["w=dog"], ["w=ran"]], [["w=cat"]]]
Y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN", "VERB"], ["NOUN"]]


@pytest.fixture(scope="module")
def tagger():
    return SequenceTagger(tol=1e-4).fit(X, Y)


def test_all_weights_are_those_of_the_tagger(tagger):
    found = tagger.explain(n=None)
    names, labels = tagger.vectorizer_.feature_names_, tagger.classes_
    assert list(found.features) == labels
    for label, pairs in found.features.items():
        row = tagger.coef_[labels.index(label)]
        assert dict(pairs) == {
            name: weight for name, weight in zip(names, row, strict=True) if weight
        }
        weights = [weight for _, weight in pairs]
        np.testing.assert_allclose(weights, sorted(weights, reverse=True), atol=1e-8)
    at = {label: k for k, label in enumerate(labels)}
    for a, b, weight in found.transitions:
        if a is None:
            assert weight == tagger.starts_[at[b]]
        elif b is None:
            assert weight == tagger.stops_[at[a]]
        else:
            assert weight == tagger.transitions_[at[a], at[b]]
    total = sum(map(np.count_nonzero, (tagger.transitions_, tagger.starts_, tagger.stops_)))
    assert len(found.transitions) == total


def test_n_keeps_the_largest_of_either_sign(tagger):
    found = tagger.explain(n=2)
    assert isinstance(found, TaggerExplanation)
    assert len(found.transitions) == 2
    for label, pairs in found.features.items():
        row = np.abs(tagger.coef_[tagger.classes_.index(label)])
        kept = [abs(weight) for _, weight in pairs]
        assert len(kept) <= 2
        np.testing.assert_allclose(sorted(kept), np.sort(row)[-2:], atol=1e-8)


def test_text_lists_labels_features_and_transitions(tagger):
    lines = str(tagger.explain(n=3)).splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [*tagger.classes_, "transitions"]
    at = lines.index("DET")
    assert "w=the" in [line.split()[0] for line in lines[at + 1 : at + 4]]
    assert len({len(line) for line in lines if line.startswith(" ")}) == 1  # aligned


def test_forbidden_transitions_are_left_out():
    forbidden = [("DET", "VERB"), ("NOUN", "DET"), (None, "VERB"), ("DET", None)]
    found = SequenceTagger(forbidden_transitions=forbidden).fit(X, Y).explain(n=None)
    assert not {(a, b) for a, b, _ in found.transitions} & set(forbidden)


def test_columns_without_names_are_numbered():
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(5, 3)) for _ in range(10)]
    tagger = SequenceTagger().fit(rows, [x.argmax(axis=1) for x in rows])
    found = tagger.explain(n=1)
    assert [pairs[0][0] for pairs in found.features.values()] == ["x0", "x1", "x2"]
    named = tagger.explain(n=1, feature_names=["red", "green", "blue"])
    assert [pairs[0][0] for pairs in named.features.values()] == ["red", "green", "blue"]
    with pytest.raises(ValueError, match="2 names for 3 features"):
        tagger.explain(feature_names=["red", "green"])


def test_pairs_of_labels_are_the_states_of_second_order():
    tagger = SequenceTagger(order=2).fit(X, Y)
    found = tagger.explain(n=4)
    assert list(found.features) == tagger.states_
    assert all(b is None or a is None or a[1] == b[0] for a, b, _ in found.transitions)
    assert "('DET', 'ADJ')" in str(found)


def test_frames(tagger):
    found = tagger.explain(n=2)
    frame = found.to_frame()
    assert frame.columns.tolist() == ["label", "feature", "weight"]
    assert frame["label"].unique().tolist() == tagger.classes_
    moves = found.to_frame("transitions")
    assert list(moves.itertuples(index=False, name=None)) == found.transitions
    assert (moves["weight"].dtype, frame["weight"].dtype) == (np.float64, np.float64)
    with pytest.raises(ValueError, match="'features' or 'transitions'"):
        found.to_frame("labels")


def test_a_missing_package_is_named(tagger, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="requires pandas"):
        tagger.explain().to_frame()


def test_refusals(tagger):
    for n in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="integer of at least 1"):
            tagger.explain(n=n)
    with pytest.raises(ValueError, match="these features have names"):
        tagger.explain(feature_names=["a"])
    kernel = SequenceTagger(kernel="rbf").fit(X, Y)
    with pytest.raises(ValueError, match="no weights of features"):
        kernel.explain()
