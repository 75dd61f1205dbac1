"""check_risk: a right risk passes, and wrong ones are named."""

from __future__ import annotations

import numpy as np
import pytest
from tests.contracts.risk import check_risk
from tests.testing.test_checks_loss import Hinge

from maxmargin.core import Capabilities, Cut, add_cuts

RNG = np.random.default_rng(5)
Y = RNG.choice([-1.0, 1.0], 9)
X = RNG.normal(size=(9, 3))


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
    oracle, offers = "exact", Capabilities()
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
        @property
        def offers(self):
            return Capabilities(caching=self)

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
