"""KernelSVC where there is little to learn: classes and pairs without weight, fits that are stopped."""

import numpy as np
import pytest

from maxmargin import KernelSVC
from maxmargin.estimators.kernel.methods import NAMED

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 3))
Y = np.array(list("abcd"))[rng.integers(0, 4, size=80)]
#: what each method says besides, as documented
SAID = {
    "nystrom": ["restricted_lower_bound_", "restricted_gap_"],
    "sampled": ["reduced_value_"],
}


@pytest.mark.parametrize("method", sorted(NAMED))
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_pair_of_classes_without_weight(method, fit_intercept):
    weight = np.where(np.isin(Y, ["a", "b"]), 0.0, 1.0)
    options = {"method": method, "fit_intercept": fit_intercept, "tol": 1e-2}
    est = KernelSVC(**options).fit(X, Y, weight)
    some = weight > 0
    assert set(est.predict(X)) <= set("abcd")
    # the pair (c, d) is the fit to its rows alone; gamma is that of all rows
    alone = KernelSVC(**options, gamma=est.kernel_.gamma).fit(X[some], Y[some])
    if fit_intercept:  # the other pairs are constants
        assert est.objective_ == pytest.approx(alone.objective_, rel=2e-2)
    else:
        assert est.objective_ >= alone.objective_ * (1 - 2e-2)
    assert est.certificate_ == alone.certificate_
    assert isinstance(est.method_, list)
    assert len(est.method_) == 6  # one for each pair
    assert est.method_[0].startswith("constant")
    assert not est.method_[5].startswith("constant")


@pytest.mark.parametrize("method", sorted(NAMED))
def test_what_is_said_of_a_constant(method):
    two = np.isin(Y, ["a", "b"])
    est = KernelSVC(method=method).fit(X[two], Y[two], np.where(Y[two] == "a", 0.0, 1.0))
    assert est.objective_ == est.lower_bound_ == est.gap_ == 0.0
    assert (est.predict(X) == "b").all()
    assert est.method_.startswith("constant")
    for name in SAID.get(method.split("-")[0], []):
        assert getattr(est, name) == 0.0, name


@pytest.mark.parametrize("method", sorted(NAMED))
def test_every_pair_has_its_say_in_a_fit_that_is_stopped(method):
    est = KernelSVC(method=method, callbacks=[lambda record: True]).fit(X, Y)
    assert len(est.method_) == 6
    assert est.method_[5] == "not begun: the fit was stopped"
    if method == "nystrom":
        assert 0.0 <= est.restricted_lower_bound_ <= est.objective_
        assert 0.0 < est.restricted_gap_ <= 1.0


@pytest.mark.parametrize("method", sorted(NAMED))
@pytest.mark.parametrize("memory", [0, 1e4, 2.5, np.inf, np.float32(1e6)])
def test_any_number_of_bytes(method, memory):
    two = np.isin(Y, ["a", "b"])
    est = KernelSVC(method=method, memory=memory, max_iter=3).fit(X[two], Y[two])
    assert np.isfinite(est.objective_)
    assert est.memory is memory


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", None),
        ("gamma", np.array([1.0, 2.0])),
        ("gamma", -1.0),
        ("gamma", np.nan),
        ("degree", "3"),
        ("degree", 2.5),
        ("degree", -1),
        ("coef0", np.nan),
        ("coef0", "1"),
        ("memory", "1GB"),
        ("memory", -1),
        ("memory", np.nan),
        ("max_kernel_values", "a"),
    ],
)
def test_parameters_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name}(=.*: use| must be)"):
        KernelSVC(kernel="poly", **{name: value}).fit(X, Y)
