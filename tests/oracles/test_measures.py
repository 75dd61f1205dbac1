"""The cuts of joint measures are those of brute force over all labelings."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.losses import (
    AllConfusionMatrices,
    AtK,
    BalancedError,
    FBeta,
    Hinge,
    QMeasure,
    QuantificationLoss,
    RocAuc,
    confusion_matrix_losses,
)

# -- the measures, written out once more -----------------------------------------------------------


def f_beta(beta):
    def loss(tp, fp, fn, tn):
        return 1 - (1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp)

    return loss


def at_k(kind, k):
    def loss(tp, fp, fn, tn):
        count = tp + fn if k is None else k
        if tp + fp != count:
            return None  # not allowed
        return 1 - tp / (count if kind == "precision" else tp + fn)

    return loss


def prevalence(error):
    def loss(tp, fp, fn, tn):
        n = tp + fp + fn + tn
        true, guess = [(tp + fn) / n, (fp + tn) / n], [(tp + fp) / n, (fn + tn) / n]
        if error == "ae":
            return sum(abs(p - q) for p, q in zip(true, guess, strict=True)) / 2
        if error == "nae":
            return sum(abs(p - q) for p, q in zip(true, guess, strict=True)) / (2 * (1 - min(true)))
        eps = 1 / (2 * n)
        true, guess = ([(p + eps) / (1 + 2 * eps) for p in ps] for ps in (true, guess))
        if error == "rae":
            return sum(abs(p - q) / p for p, q in zip(true, guess, strict=True)) / 2
        kld = sum(p * np.log(p / q) for p, q in zip(true, guess, strict=True))
        return kld if error == "kld" else 2 * np.exp(kld) / (1 + np.exp(kld)) - 1

    return loss


def q_measure(beta):
    def loss(tp, fp, fn, tn):
        count = 1 - abs(fp - fn) / max(tp + fn, fp + tn)
        recall = tp / (tp + fn)
        if count * recall == 0:
            return 1.0
        return 1 - (1 + beta**2) * count * recall / (beta**2 * recall + count)

    return loss


def error(tp, fp, fn, tn):
    return (fp + fn) / (tp + fp + fn + tn)


def balanced(tp, fp, fn, tn):
    return (fn / (tp + fn) + fp / (fp + tn)) / 2


def odd(tp, fp, fn, tn):
    """Nothing anybody would use: no shape to exploit."""
    return (fp % 3 + 2 * (fn % 2) + (fp * fn) % 5) / 10


TABLES = {
    "f1": (FBeta(), f_beta(1.0)),
    "f2": (FBeta(2.0), f_beta(2.0)),
    "f0.3": (FBeta(0.3), f_beta(0.3)),
    "prbep": (AtK(), at_k("precision", None)),
    "precision_at_2": (AtK("precision", 2), at_k("precision", 2)),
    "recall_at_1": (AtK("recall", 1), at_k("recall", 1)),
    "recall_at_2": (AtK("recall", 2), at_k("recall", 2)),
    "q": (QMeasure(), q_measure(1.0)),
    "q2": (QMeasure(2.0), q_measure(2.0)),
    "q0.5": (QMeasure(0.5), q_measure(0.5)),
} | {
    name: (QuantificationLoss(name), prevalence(name))
    for name in ("ae", "nae", "rae", "kld", "nkld")
}


def draw(seed, n):
    """Labels of both classes, and scores with and without ties."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < rng.choice([0.2, 0.5, 0.8]), 1.0, -1.0)
    y[rng.choice(n, 2, replace=False)] = [1.0, -1.0]
    if seed % 3 == 0:
        scores = rng.integers(-2, 3, n) * rng.choice([0.25, 1.0, 2.0])
    else:
        scores = rng.normal(size=n) * rng.choice([0.1, 1.0, 10.0])
    return scores + 0.0, y, rng


def brute_force(scores, y, loss, slack=False):
    """The maximum over all 2^n labelings, and the cuts of all of them."""
    n, best = len(y), 0.0
    for labels in itertools.product([-1.0, 1.0], repeat=n):
        v = np.array(labels)
        tp, fp = np.sum((y > 0) & (v > 0)), np.sum((y < 0) & (v > 0))
        fn, tn = np.sum((y > 0) & (v < 0)), np.sum((y < 0) & (v < 0))
        cost = loss(tp, fp, fn, tn)
        if cost is not None:
            gain = 0.5 * (v - y) @ scores
            best = max(best, n * cost * (1 + gain) if slack else n * cost + gain)
    return best


def check(loss, scores, y, expected, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    offset, g = loss.cut(scores, y, weight)
    assert offset + g @ scores == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert loss.value(scores, y, weight) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    return offset, g


def belongs_to_a_labeling(offset, g, y, loss, n):
    """The cut is Delta and 1/2 (v - y) of one labeling: then it is a minorant everywhere."""
    assert set(np.unique(g)) <= {-1.0, 0.0, 1.0}
    assert not (g[y > 0] > 0).any()
    assert not (g[y < 0] < 0).any()
    fn, fp = np.sum(g < 0), np.sum(g > 0)
    cost = loss(np.sum(y > 0) - fn, fp, fn, np.sum(y < 0) - fp)
    if fn + fp > 0 or cost is not None:
        assert offset == pytest.approx(n * cost, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", TABLES)
def test_against_all_labelings(name):
    loss, reference = TABLES[name]
    for seed in range(150):
        scores, y, _ = draw(seed, 2 + seed % 7)
        offset, g = check(loss, scores, y, brute_force(scores, y, reference))
        belongs_to_a_labeling(offset, g, y, reference, len(y))


def best_table(scores, y, loss):
    """The maximum over all tables, by two plain loops."""
    low, high = np.sort(scores[y > 0]), -np.sort(-scores[y < 0])
    P, N, best = len(low), len(high), 0.0
    for fn in range(P + 1):
        for fp in range(N + 1):
            cost = loss(P - fn, fp, fn, N - fp)
            if cost is not None:
                best = max(best, (P + N) * cost - low[:fn].sum() + high[:fp].sum())
    return best


@pytest.mark.parametrize("name", TABLES)
@given(seed=st.integers(0, 100_000), n=st.integers(2, 40))
def test_against_all_tables(name, seed, n):
    loss, reference = TABLES[name]
    scores, y, _ = draw(seed, n)
    if seed % 2:  # where the margins of rare classes are: scores as large as n
        scores = scores * n
    check(loss, scores, y, best_table(scores, y, reference))


def near_ties(loss, seed):
    """Scores that make up for the losses along a random path of tables: many tables are nearly the best."""
    rng = np.random.default_rng(seed)
    P, N = (int(k) for k in rng.integers(1, 60, 2))
    losses = confusion_matrix_losses(loss, P, N)
    delta = (P + N) * np.maximum(0.0, losses)
    low, high = [], []
    while len(low) < P or len(high) < N:
        c, b = len(low), len(high)
        if b == N or (c < P and rng.random() < P / (P + N)):
            low.append(delta[c + 1, b] - delta[c, b])
        else:
            high.append(delta[c, b] - delta[c, b + 1])
    scores = np.concatenate([low, high]) + rng.choice([0.0, 1e-3, 0.1, 1.0]) * rng.normal(
        size=P + N
    )
    order = rng.permutation(P + N)
    return scores[order], np.repeat([1.0, -1.0], [P, N])[order], AllConfusionMatrices(losses)


@pytest.mark.parametrize("name", TABLES)
def test_where_many_tables_are_nearly_the_best(name):
    loss, _ = TABLES[name]
    for seed in range(600):
        if isinstance(loss, AtK) and loss.k is not None and seed % 10:
            continue
        scores, y, every_table = near_ties(loss, seed)
        check(loss, scores, y, every_table.value(scores, y, np.ones(len(y))))


@given(seed=st.integers(0, 100_000), n=st.integers(2, 40), beta=st.floats(0.05, 5.0))
def test_every_beta(seed, n, beta):
    scores, y, _ = draw(seed, n)
    check(FBeta(beta), scores, y, best_table(scores, y, f_beta(beta)))
    check(QMeasure(beta), scores, y, best_table(scores, y, q_measure(beta)))


@pytest.mark.parametrize("slack", [False, True], ids=["margin", "slack"])
def test_any_measure_against_all_labelings(slack):
    for seed in range(300):
        scores, y, _ = draw(seed, 2 + seed % 6)
        P, N = int(np.sum(y > 0)), int(np.sum(y < 0))
        for reference in (error, balanced, odd):
            loss = AllConfusionMatrices(
                confusion_matrix_losses(reference, P, N), "slack" if slack else "margin"
            )
            check(loss, scores, y, brute_force(scores, y, reference, slack))


@pytest.mark.parametrize("name", TABLES)
def test_slack_rescaling_against_all_labelings(name):
    named, reference = TABLES[name]
    for seed in range(60):
        scores, y, _ = draw(seed, 2 + seed % 6)
        P, N = int(np.sum(y > 0)), int(np.sum(y < 0))
        loss = AllConfusionMatrices(confusion_matrix_losses(named, P, N), "slack")
        check(loss, scores, y, brute_force(scores, y, reference, slack=True))


@pytest.mark.parametrize("name", TABLES)
def test_a_named_measure_is_the_same_function_of_a_table(name):
    named, reference = TABLES[name]
    for P, N in [(1, 1), (3, 5), (6, 2)]:
        for fn, fp in itertools.product(range(P + 1), range(N + 1)):
            mine, expected = named.loss(P - fn, fp, fn, N - fp), reference(P - fn, fp, fn, N - fp)
            assert (mine < 0) if expected is None else mine == pytest.approx(expected, abs=1e-12)


def test_error_is_the_hinge_loss():
    for seed in range(200):
        scores, y, _ = draw(seed, 2 + seed % 20)
        P, N = int(np.sum(y > 0)), int(np.sum(y < 0))
        expected = Hinge().value(scores, y, np.ones(len(y)))
        check(AllConfusionMatrices(confusion_matrix_losses(error, P, N)), scores, y, expected)
        check(BalancedError(), scores, y, best_table(scores, y, balanced))


def pairs(scores, y, weight):
    i, j = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    hinge = np.maximum(0.0, 1.0 - (scores[i][:, None] - scores[j][None, :]))
    scale = weight.sum() / (weight[i].sum() * weight[j].sum())
    return scale * (weight[i] @ hinge @ weight[j])


@given(seed=st.integers(0, 100_000), n=st.integers(2, 40))
def test_roc_auc_is_the_sum_over_pairs(seed, n):
    scores, y, rng = draw(seed, n)
    check(RocAuc(), scores, y, pairs(scores, y, np.ones(n)))
    weight = rng.uniform(0.1, 3.0, n)
    check(RocAuc(), scores, y, pairs(scores, y, weight), weight)


def test_roc_auc_against_all_orderings_of_pairs():
    """n (1 - area) and the pairs' score differences, maximized over all ways to swap pairs."""
    for seed in range(100):
        scores, y, _ = draw(seed, 2 + seed % 4)
        i, j = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
        gaps = [scores[a] - scores[b] for a in i for b in j]
        n, count, best = len(y), len(gaps), 0.0
        for swapped in itertools.product([0, 1], repeat=count):
            delta = n * sum(swapped) / count
            best = max(best, delta - n / count * np.dot(swapped, gaps))
        check(RocAuc(), scores, y, best)


@pytest.mark.parametrize("loss", [RocAuc(), BalancedError()], ids=["roc_auc", "balanced_error"])
def test_a_weight_is_a_number_of_copies(loss):
    for seed in range(100):
        scores, y, rng = draw(seed, 2 + seed % 20)
        copies = rng.integers(1, 4, len(y))
        whole = loss.value(np.repeat(scores, copies), np.repeat(y, copies), np.ones(copies.sum()))
        check(loss, scores, y, whole, copies.astype(float))


def test_refusals():
    with pytest.raises(ValueError, match="4,000,000"):
        confusion_matrix_losses(error, 3000, 3000)
    with pytest.raises(ValueError, match="without errors"):
        confusion_matrix_losses(lambda tp, fp, fn, tn: 1.0, 2, 2)
    with pytest.raises(ValueError, match="tp=1, fp=1, fn=1, tn=1"):
        confusion_matrix_losses(lambda tp, fp, fn, tn: -float(fp == fn == 1), 2, 2)
    with pytest.raises(ValueError, match="y has only one"):
        FBeta().check_labels(np.ones(3))
    with pytest.raises(ValueError, match="2 positive and 2 negative"):
        AllConfusionMatrices(confusion_matrix_losses(error, 2, 2)).check_labels(
            np.array([1.0, -1.0, -1.0])
        )
    for make in (lambda: FBeta(0.0), lambda: QMeasure(-1.0), lambda: AtK("f1"), lambda: AtK(k=0)):
        with pytest.raises(ValueError):
            make()
