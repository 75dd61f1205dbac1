"""check_risk: a right risk passes, and wrong ones are named."""

from __future__ import annotations

import numpy as np
import pytest
from tests.contracts.risk import check_risk
from tests.testing.test_checks_loss import Hinge

from maxmargin.core import Capabilities, Cut

RNG = np.random.default_rng(5)
Y = RNG.choice([-1.0, 1.0], 9)
X = RNG.normal(size=(9, 3))


class Evaluated:
    """The hinge risk pinned at w."""

    def __init__(self, w):
        self.w = w

    @property
    def value(self):
        return Evaluated.cut(self).at(self.w)

    @property
    def upper(self):
        return self.value

    def cut(self):
        offset, g = Hinge().cut(X @ self.w, Y, np.ones(9))
        return Cut(offset, X.T @ g)


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
    dim, n_examples, n_blocks, lower_bound = 3, 9, 1, 0.0
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
        upper, value = np.inf, 0.0

        def cut(self):
            return Cut(0.0, 0.0 * super().cut().plane)

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
    @property
    def value(self):
        return self.cut().at(self.w)

    def cut(self):
        cut = super().cut()
        return Cut(cut.offset + 0.3 * abs(self.w[0]), cut.plane)


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
        (_risk(LooseCut), "tight"),
        (_risk(HighCut), "minorant|convex"),
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
