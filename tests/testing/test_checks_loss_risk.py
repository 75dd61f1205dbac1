"""check_loss and check_risk: what is right passes, what is wrong is named."""

from __future__ import annotations

import numpy as np
import pytest
from tests.contracts.risk import check_risk

from maxmargin.core import Capabilities, Cut, add_cuts
from maxmargin.testing import check_loss

RNG = np.random.default_rng(5)
Y = RNG.choice([-1.0, 1.0], 9)
X = RNG.normal(size=(9, 3))


class Hinge:
    decomposable = True

    def cut(self, scores, y, weight):
        wrong = weight * (y * scores < 1.0)
        return float(wrong.sum()), -wrong * y

    def value(self, scores, y, weight):
        return float(weight @ np.maximum(0.0, 1.0 - y * scores))

    def slopes(self, scores, other, y, weight, ts):
        d = other - scores
        out = []
        for t in ts:
            margin, step = 1.0 - y * (scores + t * d), -y * d
            active = (margin > 1e-12) | ((np.abs(margin) <= 1e-12) & (step > 0.0))
            out.append(float((weight * step)[active].sum()))
        return np.array(out)

    def breakpoints(self, scores, other, y, weight, lo, hi, limit):
        d = other - scores
        moving = d != 0.0
        ts = (1.0 - y * scores)[moving] / (y * d)[moving]
        inside = (ts > lo) & (ts < hi)
        if inside.sum() > limit:
            return None
        return ts[inside], (weight * np.abs(d))[moving][inside]


class Squared:
    """Not piecewise linear: no kinks to name."""

    def cut(self, scores, y, weight):
        margin = np.maximum(0.0, 1.0 - y * scores)
        g = -2.0 * weight * y * margin
        return float(weight @ margin**2 - g @ scores), g

    def slopes(self, scores, other, y, weight, ts):
        d = other - scores
        return np.array([self.cut(scores + t * d, y, weight)[1] @ d for t in ts])

    def breakpoints(self, *args):
        return None


@pytest.mark.parametrize("loss", [Hinge(), Squared()])
def test_right_losses_pass(loss):
    check_loss(loss, Y)


def test_default_shape_comes_from_the_loss():
    class Two:
        def n_outputs(self):
            return 2

        def cut(self, scores, y, weight):
            assert scores.shape == (3, 2)
            return float(weight.sum()), np.zeros_like(scores)

    check_loss(Two(), [0, 1, 0])
    check_loss(Two(), [0, 1, 0], 2)
    check_loss(Two(), [0, 1, 0], (3, 2))


class NotTight(Hinge):
    def value(self, scores, y, weight):
        return super().value(scores, y, weight) + 0.1


class NotMinorant(Hinge):
    def cut(self, scores, y, weight):
        offset, g = super().cut(scores, y, weight)
        return offset + g @ scores - 1.5 * g @ scores, 1.5 * g


class Concave:
    def cut(self, scores, y, weight):
        s = np.sqrt(1.0 + np.abs(scores))
        g = weight * np.sign(scores) / (2.0 * s)
        return float(weight @ s - g @ scores), g


class Negative:
    def cut(self, scores, y, weight):
        return float(-weight.sum()), np.zeros_like(scores)


class IgnoresWeight(Hinge):
    def cut(self, scores, y, weight):
        return super().cut(scores, y, np.ones_like(weight))

    def value(self, scores, y, weight):
        return super().value(scores, y, np.ones_like(weight))


class NotDecomposable(Hinge):
    def cut(self, scores, y, weight):
        offset, g = super().cut(scores, y, weight)
        return offset * len(y), g * len(y)

    def value(self, scores, y, weight):
        return super().value(scores, y, weight) * len(y)


class WrongSlopes(Hinge):
    def slopes(self, *args):
        return super().slopes(*args) + 0.1


class LeftSlopes(Hinge):
    def slopes(self, scores, other, y, weight, ts):
        return super().slopes(scores, other, y, weight, np.asarray(ts) - 1e-9)


class MissesKink(Hinge):
    def breakpoints(self, *args):
        found = super().breakpoints(*args)
        return None if found is None else (found[0][1:], found[1][1:])


class KinkOutside(Hinge):
    def breakpoints(self, scores, other, y, weight, lo, hi, limit):
        return super().breakpoints(scores, other, y, weight, lo - 5.0, hi, limit)


class IgnoresLimit(Hinge):
    def breakpoints(self, scores, other, y, weight, lo, hi, limit):
        return super().breakpoints(scores, other, y, weight, lo, hi, 10**6)


class WrongShape(Hinge):
    def cut(self, scores, y, weight):
        offset, g = super().cut(scores, y, weight)
        return offset, g[:, None]


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (NotTight(), "value"),
        (NotMinorant(), "minorant|convex|value"),
        (Concave(), "minorant|convex"),
        (Negative(), "negative"),
        (IgnoresWeight(), "doubled weights"),
        (NotDecomposable(), "halves"),
        (WrongSlopes(), "slope"),
        (LeftSlopes(), "right derivatives"),
        (MissesKink(), "jumps"),
        (KinkOutside(), "outside"),
        (IgnoresLimit(), "limit=0"),
        (WrongShape(), "shape"),
    ],
    ids=lambda v: "" if isinstance(v, str) else type(v).__name__,
)
def test_wrong_losses_are_caught(loss, message):
    with pytest.raises(AssertionError, match=message):
        check_loss(loss, Y)


# -- risks -----------------------------------------------------------------------------------------


class Evaluated:
    """The hinge risk pinned at w, in two blocks of rows."""

    blocks = (slice(0, 4), slice(4, 9))

    def __init__(self, w):
        self.w = w

    @property
    def value(self):
        return add_cuts(self.cuts()).at(self.w)

    @property
    def upper(self):
        return self.value

    def cuts(self):
        out = []
        for rows in self.blocks:
            offset, g = Hinge().cut(X[rows] @ self.w, Y[rows], np.ones(len(Y[rows])))
            out.append(Cut(offset, X[rows].T @ g))
        return out

    def cut(self):
        return add_cuts(self.cuts())


class OnLine(Evaluated):
    def toward(self, other, t):
        return type(self)(self.w + t * (other.w - self.w))

    def _ends(self, other):
        return X @ self.w, X @ other.w

    def slopes(self, other, ts):
        a, b = self._ends(other)
        return Hinge().slopes(a, b, Y, np.ones(9), ts)

    def breakpoints(self, other, lo, hi, limit):
        a, b = self._ends(other)
        return Hinge().breakpoints(a, b, Y, np.ones(9), lo, hi, limit)


class HingeRisk:
    dim, n_examples, n_blocks, lower_bound = 3, 9, 2, 0.0
    oracle, has_cache, offers = "exact", False, Capabilities()
    At = OnLine

    def evaluate(self, w, *, exact=True):
        return self.At(np.asarray(w))


def _risk(At=OnLine, **attributes):
    return type("Risk", (HingeRisk,), {"At": At, **attributes})()


def test_right_risks_pass():
    check_risk(_risk())
    check_risk(_risk(Evaluated))


def test_a_cache_may_answer_low():
    class Cached(Evaluated):
        upper = np.inf

        def cuts(self):
            return [Cut(0.0, 0.0 * c.plane) for c in super().cuts()]

    class Risk(HingeRisk):
        has_cache = True

        def evaluate(self, w, *, exact=True):
            return OnLine(w) if exact else Cached(w)

    check_risk(Risk())
    Cached.upper = 0.0
    with pytest.raises(AssertionError, match="upper is below the exact"):
        check_risk(Risk())


class LooseCut(OnLine):
    def cut(self):
        cut = super().cut()
        return Cut(cut.offset - 0.1, cut.plane)


class HighCut(OnLine):
    def cuts(self):
        return [Cut(c.offset + 0.3 * abs(self.w[0]), c.plane) for c in super().cuts()]


class MissingBlock(OnLine):
    def cuts(self):
        return super().cuts()[:1]


class WrongToward(OnLine):
    def toward(self, other, t):
        return type(self)(self.w + t * t * (other.w - self.w))


class WrongLineSlope(OnLine):
    def slopes(self, other, ts):
        return -super().slopes(other, ts)


class LosesKinks(OnLine):
    def breakpoints(self, other, lo, hi, limit):
        return np.empty(0), np.empty(0)


class LowUpper(OnLine):
    @property
    def upper(self):
        return self.value - 1.0


@pytest.mark.parametrize(
    ("risk", "message"),
    [
        (_risk(LooseCut), "tight|sum against cut"),
        (_risk(HighCut), "minorant|convex"),
        (_risk(MissingBlock), "n_blocks"),
        (_risk(WrongToward), "toward"),
        (_risk(WrongLineSlope), "slope"),
        (_risk(LosesKinks), "jumps"),
        (_risk(LowUpper), "upper"),
        (_risk(lower_bound=1e9), "lower_bound"),
        (_risk(oracle="perfect"), "oracle"),
    ],
)
def test_wrong_risks_are_caught(risk, message):
    with pytest.raises(AssertionError, match=message):
        check_risk(risk)
