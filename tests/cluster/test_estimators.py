"""Estimators on Ray: the same bits as in one thread; joint measures among them."""

from __future__ import annotations

import pytest
from tests.invariances.test_estimator_engines import CERTIFICATE, fit, weights_of
from tests.nightly import first


@pytest.mark.parametrize("n_workers", first(1, [2, 4]))
def test_every_family_gives_the_same_bits(make_engine, n_workers):
    engine = make_engine(n_workers)
    for name in (
        "binary",
        "classes",
        "regression",
        "ranking",
        "f1",
        "roc area",
        "graphs",
        "latent",
    ):
        here, there = fit(name), fit(name, engine=engine)
        assert weights_of(there).tobytes() == weights_of(here).tobytes(), name
        assert [getattr(there, a) for a in CERTIFICATE] == [getattr(here, a) for a in CERTIFICATE]
