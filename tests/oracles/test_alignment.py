"""Alignment against enumeration: every alignment of short sequences is listed.

Claims: both argmaxes find the best alignment, with linear and affine gaps of either sign; features are
counts that a naive reading of the two rows gives too; rows and pairs are two forms of one thing.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.referees.problems import solve_structured_qp

from maxmargin import StructuredSVM, load
from maxmargin.tasks import Alignment
from maxmargin.testing import check_task


def every_alignment(x):
    """All sets of pairs that rise in both sequences."""
    n, m = len(x[0]), len(x[1])
    for k in range(min(n, m) + 1):
        for top in combinations(range(n), k):
            for bottom in combinations(range(m), k):
                yield np.array(list(zip(top, bottom, strict=True)), dtype=np.int64).reshape(k, 2)


def naive_score(task, w, x, y):
    """From the two written rows: columns of symbols, gaps, and runs of gaps on each side of a place."""
    weights = dict(zip(task.feature_names, w, strict=True))
    top, bottom = Alignment.to_rows(x, y)
    total = 0.0
    for p, q in zip(top, bottom, strict=True):
        if "-" in (p, q):
            total += weights["gap"]
        else:
            total += weights.get((p, q), weights.get((q, p)))
    if task.affine:
        gaps = [
            "b" if q == "-" else "a" if p == "-" else "." for p, q in zip(top, bottom, strict=True)
        ]
        for k, kind in enumerate(gaps):
            total += weights["open"] * (kind != "." and (k == 0 or gaps[k - 1] != kind))
    return total


texts = st.text("ACG", max_size=4)


@settings(max_examples=max(150, settings().max_examples))
@given(
    a=texts,
    b=texts,
    symmetric=st.booleans(),
    affine=st.booleans(),
    seed=st.integers(0, 10**6),
    whole=st.booleans(),
)
def test_argmaxes_are_those_of_enumeration(a, b, symmetric, affine, seed, whole):
    rng = np.random.default_rng(seed)
    task, x = Alignment(symmetric, affine), (a, b)
    every = list(every_alignment(x))
    y = every[rng.integers(len(every))]
    dim = task.setup([x, ("ACG", "ACG")], [y, []])
    w = rng.integers(-2, 3, dim).astype(float) if whole else rng.normal(size=dim)
    scores = []
    for z in every:
        score = float(task.joint_feature(x, z) @ w)
        assert score == pytest.approx(naive_score(task, w, x, z), abs=1e-10)
        scores.append(score)
    found = task.inference(x, w)
    assert any(np.array_equal(found, z) for z in every)
    assert task.joint_feature(x, found) @ w == pytest.approx(max(scores), abs=1e-10)
    truth = {tuple(p) for p in y.tolist()}
    losses = [len(truth ^ {tuple(p) for p in z.tolist()}) for z in every]
    assert [task.loss(y, z) for z in every] == losses
    worst = task.loss_augmented_inference(x, y, w)
    value = task.loss(y, worst) + task.joint_feature(x, worst) @ w
    assert value == pytest.approx(
        max(s + l for s, l in zip(scores, losses, strict=True)), abs=1e-10
    )


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_task_passes_its_check(symmetric, affine):
    X = [("ACG", "AG"), ("GGA", "CGA"), ("", "AC"), ("A", "A")]
    Y = [[(0, 0), (2, 1)], [(1, 1), (2, 2)], [], [(0, 0)]]
    check_task(Alignment(symmetric, affine), X, Y, outputs=every_alignment, n_trials=60)


@given(a=texts, b=texts, seed=st.integers(0, 10**6))
def test_rows_and_pairs_are_two_forms_of_one_thing(a, b, seed):
    every = list(every_alignment((a, b)))
    y = every[np.random.default_rng(seed).integers(len(every))]
    top, bottom = Alignment.to_rows((a, b), y)
    assert top.replace("-", "") == a
    assert bottom.replace("-", "") == b
    x, again = Alignment.from_rows(top, bottom)
    assert x == (a, b)
    assert np.array_equal(again, y)


def test_training_reaches_the_optimum_of_an_independent_qp():
    rng = np.random.default_rng(0)
    X, Y = [], []
    for _ in range(6):
        x = tuple("".join(rng.choice(list("AC"), rng.integers(1, 4))) for _ in range(2))
        every = list(every_alignment(x))
        X.append(x)
        Y.append(every[rng.integers(len(every))])
    best, _ = solve_structured_qp(Alignment(affine=True), X, Y, 0.5, outputs=every_alignment)
    svm = StructuredSVM(Alignment(affine=True), 0.5, tol=1e-5).fit(X, Y)
    assert svm.certificate_ == "exact"
    assert svm.converged_
    assert svm.lower_bound_ <= best * (1 + 1e-9)
    assert svm.objective_ >= best * (1 - 1e-9)


def test_weights_have_names_and_a_matrix():
    task = Alignment(affine=True)
    dim = task.setup([("AB", "BC")], [[]])
    assert dim == 8 == len(task.feature_names)
    w = np.arange(8.0)
    table = task.substitutions(w)
    assert np.array_equal(table, table.T)
    for (p, q), value in zip(task.feature_names[:6], w, strict=False):
        assert table[task.symbols_.index(p), task.symbols_.index(q)] == value
    svm = StructuredSVM(task, fixed={"gap": -1.0}).fit([("AB", "BC")], [[(1, 0)]])
    assert svm.coef_[6] == -1.0


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (("AB", "A"), [(0, 1)], "outside"),
        (("AB", "AB"), [(1, 0), (0, 1)], "increasing"),
        (("AB", "AB"), [(0, 0), (1, 0)], "increasing"),
    ],
)
def test_what_is_no_alignment_is_refused(x, y, words):
    with pytest.raises(ValueError, match=f"example 1: .*{words}"):
        Alignment().setup([("A", "A"), x], [[], y])


def test_symbols_without_a_score_are_refused():
    task = Alignment()
    task.setup([("AB", "A")], [[]])
    with pytest.raises(ValueError, match="'Z' is unknown"):
        task.inference(("Z", "A"), np.zeros(task.dim))
    with pytest.raises(ValueError, match="example 0: the symbol 'B'"):
        Alignment(symbols="AC").setup([("AB", "A")], [[]])
    with pytest.raises(ValueError, match="both rows have a gap"):
        Alignment.from_rows("A-", "B-")
    with pytest.raises(ValueError, match="equal lengths"):
        Alignment.from_rows("A-", "B")


def test_symbols_are_anything_hashable():
    x, y = Alignment.from_rows([1, "u", None], [1, None, (2, 3)], gap=None)
    assert x == ([1, "u"], [1, (2, 3)])
    svm = StructuredSVM(Alignment(symmetric=False)).fit([x], [y])
    assert np.array_equal(svm.predict([x])[0], [[0, 0]])


def test_a_saved_aligner_needs_its_alphabet_only(tmp_path):
    x, y = Alignment.from_rows("ACG-", "A-GG")
    svm = StructuredSVM(Alignment(affine=True)).fit([x], [y])
    svm.save(tmp_path / "aligner")
    again = load(tmp_path / "aligner", task=Alignment(affine=True, symbols="GCA"))
    new = ("GCA", "GA")
    assert np.array_equal(again.predict([new])[0], svm.predict([new])[0])
    with pytest.raises(ValueError, match="dimension"):
        load(tmp_path / "aligner", task=Alignment(symbols="GCA"))
