"""The size of the cache of constraints: fits of every size end at the same optimum, and small caches are
small."""

from __future__ import annotations

import numpy as np
import pytest

from maxmargin import minimize
from maxmargin.risks import TaskRisk
from maxmargin.risks.structured.shard import CACHE_SIZE
from maxmargin.solvers import CuttingPlane, RelativeGap
from maxmargin.tasks import Chain


def chain(kind=Chain) -> TaskRisk:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 4)) for _ in range(60)]
    Y = [(x[:, :3] + rng.normal(size=(6, 3))).argmax(axis=1) for x in X]
    task = kind(n_labels=3)
    return TaskRisk(task, X, Y, task.setup(X, Y))


def fit(risk: TaskRisk, **options):
    return minimize(risk, 1.0, solver=CuttingPlane(**options), stopping=RelativeGap(1e-3))


def most_cached(risk: TaskRisk) -> int:
    """The largest number of constraints of an example."""
    return max(int(np.diff(shard._pointers).max()) for shard in risk.engine._shards)


def test_caches_of_all_sizes_reach_the_optimum_and_small_ones_call_the_oracle_more_often():
    fits = {f: fit(chain(), cache_size=f) for f in (2, 5, 20)}
    fits[1] = fit(chain(), cache_size=1, line_search=False)
    plain = fit(chain(), cache_size=5, line_search=False)
    best = min(result.objective for result in fits.values())
    for result in fits.values():
        assert result.converged
        assert result.lower_bound <= best
    calls = {f: result.history[-1].oracle_calls for f, result in fits.items()}
    assert calls[2] > calls[20]
    assert calls[1] > plain.history[-1].oracle_calls


def test_the_default_is_that_of_the_risk():
    default, same = fit(chain(), use_cache=True), fit(chain(), cache_size=CACHE_SIZE)
    assert default.w.tobytes() == same.w.tobytes()
    assert default.w.tobytes() != fit(chain(), cache_size=2).w.tobytes()


class PlainChain(Chain):
    """The same oracle, in plain Python."""

    def pack(self, X, Y, weights=None):
        return None


def test_without_a_line_search_the_default_caches_where_the_oracle_is_not_compiled():
    compiled, plain = fit(chain(), line_search=False), fit(chain(PlainChain), line_search=False)
    cached = fit(chain(), line_search=False, use_cache=True)
    assert compiled.history[-1].oracle_calls > compiled.n_iter
    for fitted in (plain, cached):
        assert fitted.history[-1].oracle_calls < 0.5 * fitted.n_iter
    for fitted in (compiled, plain, cached):
        assert fitted.converged
        assert fitted.lower_bound <= compiled.objective <= 1.001 * fitted.objective


@pytest.mark.parametrize("size", [2, 3])
def test_no_example_has_more_constraints_than_that(size):
    risk = chain()
    fit(risk, cache_size=size)
    assert most_cached(risk) == size


def test_a_risk_can_be_used_with_caches_of_several_sizes_one_after_the_other():
    risk = chain()
    fit(risk, use_cache=True)
    assert fit(risk, cache_size=2).w.tobytes() == fit(chain(), cache_size=2).w.tobytes()
    assert most_cached(risk) == 2


@pytest.mark.parametrize("size", [0, -1, 2.5, "5"])
def test_a_size_is_a_positive_whole_number(size):
    with pytest.raises(ValueError, match="1 or more"):
        CuttingPlane(cache_size=size)


def test_one_constraint_per_example_misleads_the_line_search():
    with pytest.raises(ValueError, match="line_search=False"):
        CuttingPlane(cache_size=1)
