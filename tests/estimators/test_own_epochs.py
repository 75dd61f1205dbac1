"""A loss whose dual has a form of its own hands in its terms and whole epochs of coordinate ascent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.estimators.test_own_loss import (
    WIDTH,
    HuberHinge,
    problem,
    referee,
    require_true,
    with_constant,
)

from maxmargin import LinearSVC
from maxmargin.duals.one_score import BinaryCoordinates
from maxmargin.losses import RowTerms
from maxmargin.solvers import DualCoordinate, Newton


class OwnEpochs(BinaryCoordinates):
    """Epochs that count themselves; the loops are those of the library."""

    made = 0

    def __init__(self, rows, C, regularizer=None, **options):
        OwnEpochs.made += 1
        super().__init__(replace(rows, loss=HuberHinge(WIDTH)), C, regularizer, **options)


class OwnTerms(RowTerms):
    """All that solvers ask of the duals of rows, by methods instead of numbers."""

    coordinates = OwnEpochs
    largest_demand = 1.0
    keeps_signs = True

    def __init__(self, y):
        inner = HuberHinge(WIDTH).dual_terms(y)
        self.curvature = inner.curvature
        for name in ("contribution", "caps", "sizes", "into_box", "demands"):
            setattr(self, f"_{name}", getattr(inner, name))

    def contribution(self, *args):
        return self._contribution(*args)

    def caps(self, *args):
        return self._caps(*args)

    def sizes(self, *args):
        return self._sizes(*args)

    def into_box(self, *args):
        return self._into_box(*args)

    def demands(self, *args):
        return self._demands(*args)


class Own(HuberHinge):
    def __init__(self, terms=OwnTerms):
        super().__init__(WIDTH)
        self.terms = terms

    def dual_terms(self, y):
        return self.terms(y)


class NoEpochs(OwnTerms):
    coordinates = None


def test_epochs_of_ones_own_train_in_memory_and_in_streams():
    X, y, s = problem(30)
    best, _ = referee(with_constant(X), y, s, WIDTH)
    svc = LinearSVC(loss=Own(), solver=DualCoordinate(), tol=1e-6).fit(X, y, s)
    require_true(svc, best, 1e-6)
    assert OwnEpochs.made > 0
    OwnEpochs.made = 0
    stream = LinearSVC(loss=Own(), max_support=30)
    for k in range(3):
        stream.partial_fit(X[k::3], y[k::3], classes=[-1.0, 1.0], sample_weight=s[k::3])
    assert 0.0 < stream.lower_bound_ <= best * (1.0 + 1e-9)
    assert OwnEpochs.made > 0


def test_terms_without_epochs_are_refused():
    X, y, _ = problem(31)
    with pytest.raises(TypeError, match="set the attribute coordinates"):
        LinearSVC(loss=Own(NoEpochs), solver=DualCoordinate()).fit(X, y)
    with pytest.raises(TypeError, match="newton_terms"):
        LinearSVC(loss=Own(), solver=Newton()).fit(X, y)
    assert np.isfinite(LinearSVC(loss=Own()).fit(X, y).objective_)
