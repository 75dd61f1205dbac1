"""check_loss: right losses pass, and wrong ones are named."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin.testing import check_loss

RNG = np.random.default_rng(5)
Y = RNG.choice([-1.0, 1.0], 9)


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
