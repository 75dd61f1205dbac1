"""SequenceTagger: every form of input, masks, costs, and errors that name the place."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import SequenceTagger, StructuredSVM
from maxmargin.tasks import WeightedLabels
from maxmargin.tasks.chains.second_order import expand

WORDS = [
    ["the", "cat", "sat"],
    ["a", "dog", "ran", "fast"],
    ["the", "dog", "sat"],
    ["cat", "ran"],
]
TAGS = [["D", "N", "V"], ["D", "N", "V", "A"], ["D", "N", "V"], ["N", "V"]]


def as_strings():
    return [[[f"w={w}", f"last={w[-1]}"] for w in s] for s in WORDS]


def as_dicts():
    return [[{"w": w, "last": w[-1], "length": len(w) / 5} for w in s] for s in WORDS]


def as_matrices(form=np.asarray):
    vocabulary = sorted({w for s in WORDS for w in s})
    eye = np.eye(len(vocabulary))
    return [form(eye[[vocabulary.index(w) for w in s]]) for s in WORDS]


@pytest.mark.parametrize(
    "make",
    [as_strings, as_dicts, as_matrices, lambda: as_matrices(sp.csr_matrix), lambda: WORDS],
)
def test_every_form_of_input(make):
    X = make()
    tagger = SequenceTagger(1.0).fit(X, TAGS)
    assert tagger.predict(X) == TAGS
    assert tagger.score(X, TAGS) == 1.0
    assert tagger.classes_ == ["A", "D", "N", "V"]
    assert tagger.coef_.shape == (4, tagger.n_features_in_)
    assert tagger.transitions_.shape == (4, 4)


def test_one_stacked_matrix_with_lengths():
    X, lengths = as_matrices(), [len(s) for s in WORDS]
    listed = SequenceTagger(1.0).fit(X, TAGS)
    flat = [t for s in TAGS for t in s]
    for stacked in (np.vstack(X), sp.csr_matrix(np.vstack(X)), np.vstack(X).astype(np.float32)):
        for labels in (TAGS, flat):
            tagger = SequenceTagger(1.0).fit(stacked, labels, lengths=lengths)
            np.testing.assert_allclose(tagger.weights_, listed.weights_, atol=1e-12)
            assert tagger.predict(stacked, lengths=lengths) == flat
            assert tagger.score(stacked, flat, lengths=lengths) == 1.0
            assert tagger.score(stacked, TAGS, lengths=lengths) == 1.0


def test_labels_are_any_hashable_values():
    rename = {"D": 1, "N": ("noun", 0), "V": frozenset({7}), "A": 2.5}
    labels = [[rename[t] for t in s] for s in TAGS]
    tagger = SequenceTagger(1.0).fit(as_strings(), labels)
    assert tagger.predict(as_strings()) == labels


def test_features_not_seen_in_training_are_ignored():
    tagger = SequenceTagger(1.0).fit(as_strings(), TAGS)
    assert len(tagger.predict([[["w=zebra"], ["w=the"], []]])[0]) == 3


def test_empty_sequences():
    X = [*as_strings(), []]
    tagger = SequenceTagger().fit(X, [*TAGS, []])
    assert tagger.predict(X)[-1] == []
    assert tagger.predict([]) == []
    assert tagger.predict([[]]) == [[]]


def noisy(seed=0, n=80):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(2, 7), 3)) for _ in range(n)]
    return X, [(x + rng.normal(size=x.shape)).argmax(axis=1).tolist() for x in X]


def test_forbidden_transitions_hold_in_training_and_prediction():
    X, Y = noisy()
    banned = [(0, 1), (2, 2), (None, 2), (1, None)]
    Y = [_legalise(y) for y in Y]
    Y[0][0] = 1  # every label that is named must occur
    tagger = SequenceTagger(0.1, forbidden_transitions=banned).fit(X, Y)
    assert tagger.converged_
    for labels in tagger.predict(X):
        assert labels[0] != 2
        assert labels[-1] != 1
        assert not any(pair in banned for pair in itertools.pairwise(labels))


def _legalise(y):
    """Some legal sequence of the same length."""
    return [0] + [2 if k % 2 else 0 for k in range(1, len(y) - 1)] + ([0] if len(y) > 1 else [])


def test_a_label_that_the_mask_forbids_is_refused_by_name():
    X, Y = noisy()
    place = next(i for i, y in enumerate(Y) if (0, 1) in itertools.pairwise(y))
    with pytest.raises(ValueError, match=rf"sequence {place} goes from the label 0 .*\(0, 1\)"):
        SequenceTagger(forbidden_transitions=[(0, 1)]).fit(X, Y)


def test_unseen_transitions_can_be_forbidden():
    X, _ = noisy(1)
    Y = [["a" if t % 2 == 0 else "b" for t in range(len(x))] for x in X]
    tagger = SequenceTagger(0.01, forbidden_transitions="unseen").fit(X, Y)
    rng = np.random.default_rng(5)
    for labels in tagger.predict([rng.normal(size=(9, 3)) * 50 for _ in range(20)]):
        assert all(a != b for a, b in itertools.pairwise(labels))
    assert len(tagger.predict([rng.normal(size=(1, 3))])[0]) == 1


def test_costs_by_label_matrix_and_token():
    X, Y = noisy(2, 200)
    share = lambda t: np.mean([label == 2 for s in t.predict(X) for label in s])  # noqa: E731
    plain = share(SequenceTagger(0.01).fit(X, Y))
    assert share(SequenceTagger(0.01, cost={2: 8.0}).fit(X, Y)) > plain + 0.05
    matrix = (1 - np.eye(3)) * np.array([[1.0], [1.0], [8.0]])
    expensive = SequenceTagger(0.01, cost=matrix).fit(X, Y)
    assert share(expensive) > plain + 0.05
    weights = [np.where(np.array(y) == 2, 8.0, 1.0) for y in Y]
    by_token = SequenceTagger(0.01).fit(X, Y, token_weight=weights)
    np.testing.assert_allclose(by_token.objective_, expensive.objective_, rtol=0.11)


def test_sample_weights_are_copies():
    X, Y = noisy(3, 40)
    twice = SequenceTagger(0.1, tol=1e-4).fit(X + X, Y + Y)
    heavy = SequenceTagger(0.1, tol=1e-4).fit(X, Y, sample_weight=np.full(len(X), 2.0))
    assert twice.lower_bound_ <= heavy.objective_
    assert heavy.lower_bound_ <= twice.objective_


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.fit(as_strings(), TAGS[:-1]), "4 sequences but y has 3"),
        (lambda t: t.fit(as_strings(), [s[:-1] for s in TAGS]), "sequence 0 has 3 tokens but 2"),
        (lambda t: t.fit(np.eye(3), TAGS), "lengths"),
        (lambda t: t.fit(np.eye(3), ["a", "b", "c"], lengths=[1, 1]), "add up to 2"),
        (lambda t: t.fit([], []), "empty"),
        (lambda t: t.fit([[]], [[]]), "empty"),
        (lambda t: t.fit([np.ones((1, 2)), np.ones((1, 3))], [[0], [1]]), "different numbers"),
        (lambda t: t.fit([np.full((1, 2), np.nan)], [[0]]), "NaN"),
        (lambda t: t.set_params(cost={"Z": 2}).fit(as_strings(), TAGS), "do not occur"),
        (lambda t: t.set_params(cost=np.eye(2)).fit(as_strings(), TAGS), "4 labels"),
        (lambda t: t.set_params(forbidden_transitions="none").fit(as_strings(), TAGS), "unseen"),
        (lambda t: t.set_params(forbidden_transitions=["DN"]).fit(as_strings(), TAGS), "pairs"),
        (lambda t: t.fit(as_strings(), TAGS, sample_weight=[1.0]), "sample_weight"),
        (lambda t: t.fit(as_strings(), TAGS).predict([np.eye(3)]), "feature"),
        (lambda t: t.fit(as_matrices(), TAGS).predict(as_strings()), "fitted on matrices"),
        (lambda t: t.fit(as_matrices(), TAGS).predict([np.ones((1, 3))]), "7 features|features"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(ValueError, match=words):
        call(SequenceTagger())


def test_a_number_is_not_a_token():
    with pytest.raises(TypeError, match="dict of features"):
        SequenceTagger().fit([[1, 2]], [["a", "b"]])


def test_one_label_only():
    tagger = SequenceTagger().fit([[["a"]], [["b"], ["c"]]], [["X"], ["X", "X"]])
    assert tagger.predict([[["q"], ["r"]]]) == [["X", "X"]]
    assert tagger.converged_


# -- more than the best labeling ------------------------------------------------------------------


def test_k_best_and_max_marginals_in_every_form():
    X, lengths = as_matrices(), [len(s) for s in WORDS]
    tagger = SequenceTagger().fit(X, TAGS)
    lists, marginals = tagger.predict_k_best(X, 3), tagger.max_marginals(X)
    predicted = tagger.predict(X)
    for best, table, labels in zip(lists, marginals, predicted, strict=True):
        assert best[0][0] == labels
        scores = [score for _, score in best]
        assert scores == sorted(scores, reverse=True)
        assert table.shape == (len(labels), 4)
        np.testing.assert_allclose(table.max(axis=1), scores[0])
        assert [tagger.classes_[k] for k in table.argmax(axis=1)] == labels
    stacked = np.vstack(X)
    assert tagger.predict_k_best(stacked, 3, lengths=lengths) == lists
    np.testing.assert_array_equal(
        tagger.max_marginals(stacked, lengths=lengths), np.vstack(marginals)
    )
    assert tagger.predict_k_best([], 2) == []
    assert tagger.max_marginals([]) == []
    assert tagger.predict_k_best([np.empty((0, X[0].shape[1]))], 2) == [[([], 0.0)]]


def test_fewer_legal_labelings_than_asked_for():
    X, Y = [np.eye(2)], [["a", "b"]]
    tagger = SequenceTagger(forbidden_transitions=[("a", "a"), ("b", "b")]).fit(X, Y)
    assert [labels for labels, _ in tagger.predict_k_best(X, 10)[0]] == [["a", "b"], ["b", "a"]]


# -- slack rescaling -------------------------------------------------------------------------------


def test_slack_rescaling_equals_that_of_the_task():
    X, Y = noisy(4, 25)
    weights = [np.random.default_rng(i).integers(0, 3, len(y)) for i, y in enumerate(Y)]
    tagger = SequenceTagger(0.1, rescaling="slack", tol=1e-3, cost={2: 3})
    tagger.fit(X, Y, token_weight=weights)
    truths = [WeightedLabels(np.array(y), s) for y, s in zip(Y, weights, strict=True)]
    svm = StructuredSVM(tagger.task_, 0.1, rescaling="slack", tol=1e-3).fit(X, truths)
    assert tagger.converged_
    assert tagger.lower_bound_ <= svm.objective_
    assert svm.lower_bound_ <= tagger.objective_
    margin = SequenceTagger(0.1, tol=1e-3, cost={2: 3}).fit(X, Y, token_weight=weights)
    assert margin.lower_bound_ > tagger.objective_ or margin.objective_ < tagger.lower_bound_


# -- missing labels --------------------------------------------------------------------------------


def test_missing_labels_are_refused_by_name():
    Y = [list(s) for s in TAGS]
    Y[1][2] = None
    with pytest.raises(ValueError, match=r"sequence 1 has no label .* at token 2"):
        SequenceTagger().fit(as_strings(), Y)
    with pytest.raises(ValueError, match="there is none"):
        SequenceTagger(partial="complete").fit(as_strings()[1:2], Y[1:2])
    with pytest.raises(ValueError, match="use 'complete' or None"):
        SequenceTagger(partial="maybe").fit(as_strings(), TAGS)


def test_completed_labels_agree_with_the_first_model_and_cost_nothing():
    X, Y = noisy(6, 120)
    whole = 60
    rng = np.random.default_rng(0)
    hidden = [
        [None if i >= whole and rng.random() < 0.4 else a for a in y] for i, y in enumerate(Y)
    ]
    tagger = SequenceTagger(0.1, tol=1e-3, partial="complete").fit(X, hidden)
    # by hand: the first model, its completions as labels, weight 0 there
    full = [i for i, y in enumerate(hidden) if None not in y]
    first = SequenceTagger(0.1, tol=1e-3).fit([X[i] for i in full], [Y[i] for i in full])
    labels, weights = [], []
    for x, y in zip(X, hidden, strict=True):
        codes = np.array([-1 if a is None else a for a in y])
        every = [z for z in itertools.product(range(3), repeat=len(y)) if agree(z, codes)]
        best = max(every, key=lambda z, x=x: score_of(first, x, z))
        labels.append(list(best))
        weights.append((codes >= 0).astype(float))
    by_hand = SequenceTagger(0.1, tol=1e-3).fit(X, labels, token_weight=weights)
    np.testing.assert_allclose(tagger.weights_, by_hand.weights_, atol=1e-10)
    assert tagger.objective_ == pytest.approx(by_hand.objective_)
    plain = SequenceTagger(0.1, tol=1e-3).fit(X, labels)
    assert tagger.objective_ < plain.lower_bound_


def agree(z, codes):
    return all(a in (-1, b) for a, b in zip(codes, z, strict=True))


def score_of(tagger, x, z):
    z = np.array(z)
    nodes = (x @ tagger.coef_.T)[np.arange(len(z)), z].sum()
    moves = tagger.transitions_[z[:-1], z[1:]].sum()
    return nodes + moves + tagger.starts_[z[0]] + tagger.stops_[z[-1]]


def test_missing_labels_and_unseen_transitions():
    X, _ = noisy(1)
    Y = [["a" if t % 2 == 0 else "b" for t in range(len(x))] for x in X]
    Y[5][1] = None
    tagger = SequenceTagger(0.01, partial="complete", forbidden_transitions="unseen").fit(X, Y)
    assert tagger.classes_ == ["a", "b"]
    Y[5] = ["a", None, "b"] + ["a"] * (len(Y[5]) - 3)
    with pytest.raises(ValueError, match="sequence 5"):
        SequenceTagger(0.01, partial="complete", forbidden_transitions=[("a", "a")]).fit(X, Y)


# -- second order ----------------------------------------------------------------------------------


def test_second_order_learns_what_first_order_cannot():
    """The label of a token is the exclusive or of the two before it: no first-order chain says so."""
    rng = np.random.default_rng(0)
    Y = []
    for _ in range(60):
        y = rng.integers(0, 2, 2).tolist()
        for _ in range(8):
            y.append(y[-1] ^ y[-2])
        Y.append(y)
    X = [np.ones((10, 2)) for _ in Y]
    for x, y in zip(X, Y, strict=True):
        x[:, 1] = 0.0
        x[:2, 1] = 2.0 * np.array(y[:2]) - 1.0  # the first two can be seen, the others follow
    second = SequenceTagger(1.0, order=2).fit(X, Y)
    assert second.predict(X) == Y
    assert SequenceTagger(1.0).fit(X, Y).score(X, Y) < 0.9
    assert len(second.states_) == 6 == len(second.coef_) == len(second.transitions_)
    assert second.states_[-1] == (None, 1)


def legal(z, banned):
    return not any(pair in banned for pair in itertools.pairwise((None, *z, None)))


def test_second_order_against_enumeration():
    X, _ = noisy(8, 40)
    banned = [(0, 1), (2, 2), (None, 2), (1, None)]
    rng = np.random.default_rng(0)
    Y = []
    for x in X:
        every = [z for z in itertools.product(range(3), repeat=len(x)) if legal(z, banned)]
        Y.append(list(every[rng.integers(len(every))]))
    tagger = SequenceTagger(0.5, tol=1e-2, order=2, forbidden_transitions=banned, cost={2: 3})
    tagger.fit(X, Y)
    assert tagger.certificate_ == "exact"
    place = {state: k for k, state in enumerate(tagger.states_)}
    for x in [rng.normal(size=(T, 3)) for T in (1, 2, 4, 4)]:
        scores = {}
        for z in itertools.product(range(3), repeat=len(x)):
            if legal(z, banned):
                states = [place[pair] for pair in itertools.pairwise((None, *z))]
                scores[z] = score_of(tagger, x, states)
        ranked = sorted(scores.values(), reverse=True)
        best = tagger.predict_k_best([x], 5)[0]
        np.testing.assert_allclose([s for _, s in best], ranked[:5])
        assert scores[tuple(best[0][0])] == pytest.approx(ranked[0])
        table = tagger.max_marginals([x])[0]
        for t, label in itertools.product(range(len(x)), range(3)):
            through = [s for z, s in scores.items() if z[t] == label]
            assert table[t, label] == pytest.approx(max(through, default=-np.inf))


def test_second_order_counts_wrong_labels_not_wrong_states():
    X, Y = noisy(9, 30)
    tagger = SequenceTagger(0.1, order=2).fit(X, Y)
    task = tagger.task_
    a, b = expand([0, 1, 2], 3), expand([0, 2, 2], 3)
    assert task.loss(a, b) == 1.0
    with pytest.raises(ValueError, match="use 1 or 2"):
        SequenceTagger(order=3).fit(X, Y)


def test_second_order_with_missing_labels():
    X, Y = noisy(6, 60)
    Y[50] = [None] * len(Y[50])
    tagger = SequenceTagger(0.1, order=2, partial="complete").fit(X, Y)
    assert tagger.converged_
    assert tagger.classes_ == [0, 1, 2]
