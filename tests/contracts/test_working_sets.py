"""check_sets: the library's own caches and working sets pass, and spoiled ones are caught."""

from __future__ import annotations

import numpy as np
import pytest
from tests.contracts.working_sets import check_sets
from tests.reference_optima.problems import terms_of
from tests.tiny_tasks import TinyChain

from maxmargin.core import SweepStats
from maxmargin.risks.structured.python_examples import PlainExamples

RNG = np.random.default_rng(3)
X = [RNG.normal(size=(n, 2)) for n in (2, 3, 1, 3)]
Y = [(0, 1), (2, 1, 0), (1,), (0, 0, 2)]


class Spoiled:
    """An object of which some methods are replaced."""

    def __init__(self, right, **methods):
        self._right, self._methods = right, methods

    def __getattr__(self, name):
        if name in self._methods:
            return lambda *args: self._methods[name](self._right, *args)
        return getattr(self._right, name)

    def __len__(self):
        return len(self._right)


def check(cache=None, sets=None, factor=1.0):
    task = TinyChain()
    examples = PlainExamples(task, X, Y, task.setup(X, Y), "margin")
    spoiled = Spoiled(
        examples,
        cache=lambda right, *args: Spoiled(right.cache(*args), **(cache or {})),
        working_sets=lambda right, caps: Spoiled(right.working_sets(factor * caps), **(sets or {})),
    )
    check_sets(spoiled, terms_of(task, X, Y, task.outputs))


def test_plain_working_sets_pass():
    check()


def one_call_more(sets, order, skip_below):
    stats = sets.stream(order, skip_below)
    return SweepStats(stats.oracle_calls + 1, stats.gap_estimate, stats.new_planes)


def drops_everything(sets, age):
    sets.rescale(np.zeros(sets.n_examples))


@pytest.mark.parametrize(
    ("spoiled", "message"),
    [
        ({"cache": {"touch": lambda cache, chosen: None}}, "more recently|entries"),
        ({"cache": {"insert": lambda cache, answers: None}}, "entries are held"),
        ({"cache": {"cut": lambda c, chosen, s: c.cut(chosen, np.ones_like(s))}}, "chosen scores"),
        ({"sets": {"stream": one_call_more}}, "cap 0"),
        ({"factor": 0.5}, "not optimal|above the objective"),
        ({"factor": 1.5}, "not optimal|above the objective"),
        ({"sets": {"dual_value": lambda sets: sets.dual_value() + 1e-3}}, "must be 0"),
        ({"sets": {"begin": lambda sets, order, skip: np.asarray(order)}}, "begin"),
        ({"sets": {"drop_idle": drops_everything}}, "drop_idle"),
        ({"sets": {"confirm": lambda s, a: tuple(0.9 * v for v in s.confirm(a))}}, "confirm"),
    ],
)  # fmt: skip
def test_wrong_ones_are_caught(spoiled, message):
    with pytest.raises(AssertionError, match=message):
        check(**spoiled)
