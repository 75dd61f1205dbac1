"""Random data with extreme values, and how a problem is reduced and written as code.

The data of a linear problem are ``X`` (an array), ``stored`` (None, or which entries a sparse matrix stores,
including explicit zeros), ``y``, ``sample_weight`` and ``params``, in which a
solver is the code of its constructor and a prior a dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzz.framework import Case

Rng = np.random.Generator
#: arrays with one entry per row
BY_ROW = ("X", "stored", "y", "sample_weight", "sample_epsilon", "groups", "fold")
SOLVERS = ("auto", "auto", "Newton()", "DualCoordinate()", "CuttingPlane()")
#: maximum iterations of explicit solvers: some need millions for the most extreme problems
LIMITS = {"Newton()": 200, "DualCoordinate()": 300, "CuttingPlane()": 200}


def chance(rng: Rng, p: float) -> bool:
    """True with this probability."""
    return bool(rng.random() < p)


def power(rng: Rng, lo: float, hi: float, size: int | None = None) -> Any:
    """10 to a power between ``lo`` and ``hi``."""
    out = 10.0 ** rng.uniform(lo, hi, size)
    return float(out) if size is None else out


def pick(rng: Rng, *choices: Any) -> Any:
    """One of the choices."""
    return choices[int(rng.integers(len(choices)))]


def shape(rng: Rng) -> tuple[int, int]:
    """1 to 60 rows and columns, small numbers more often, frequently fewer rows than columns."""
    n, d = (int(np.ceil(60.0 ** rng.random())) for _ in range(2))
    if chance(rng, 0.3):
        n, d = min(n, d), max(n, d)
    return n, d


def matrix(rng: Rng, n: int, d: int, tame: bool) -> tuple[Any, Any]:
    """X, and which entries are stored (None for a dense matrix)."""
    decades = 4.0 if tame else 12.0
    X = rng.normal(size=(n, d))
    if chance(rng, 0.2):
        X = np.round(X)
    if chance(rng, 0.3):
        X[rng.random((n, d)) < rng.random()] = 0.0
    how = rng.random()
    if how < 0.35:
        X *= power(rng, -decades, decades, d)
    elif how < 0.5:
        X *= power(rng, -decades, decades)
    elif how < 0.6 and not tame:
        X *= power(rng, -decades, decades, n)[:, None]
    if d > 1 and chance(rng, 0.15):
        X[:, rng.integers(d)] = X[:, rng.integers(d)]
    if chance(rng, 0.15):
        X[:, rng.integers(d)] = pick(rng, 0.0, 1.0, power(rng, -3, 3))
    if n > 1 and chance(rng, 0.15):
        X[rng.integers(n)] = X[rng.integers(n)]
    if chance(rng, 0.1):
        X[rng.integers(n)] = 0.0
    if chance(rng, 0.15):
        X = X.astype(np.float32)
    stored = None
    if chance(rng, 0.35):
        stored = (X != 0.0) | (rng.random((n, d)) < pick(rng, 0.0, 0.1))
    return X, stored


def weights(rng: Rng, n: int, tame: bool) -> Any:
    """Sample weights, or None."""
    if chance(rng, 0.65):
        return None
    s = pick(rng, rng.random(n), rng.integers(0, 4, n).astype(float), np.ones(n))
    if not tame and chance(rng, 0.3):
        s = s * power(rng, -6, 6, n)
    if chance(rng, 0.5):
        s[rng.random(n) < 0.3] = 0.0
    return s


def settings(rng: Rng, tame: bool) -> dict[str, Any]:
    """C, tol, and a solver with its limit."""
    solver = "auto" if tame else pick(rng, *SOLVERS)
    out: dict[str, Any] = {"C": power(rng, -4, 6) if tame else power(rng, -10, 10)}
    if chance(rng, 0.2):
        out["C"] = pick(rng, 1.0, 100.0, 1e5, 1e6)
    if not tame:
        out["tol"] = pick(rng, 1e-3, 1e-3, 0.1, power(rng, -10, -1))
    if solver != "auto":
        out |= {"solver": solver, "max_iter": LIMITS[solver]}
    return out


def intercept(rng: Rng, params: dict[str, Any], free: float = 0.25) -> None:
    """Choose whether there is an intercept, and its penalty."""
    how = rng.random()
    if how < 0.2:
        params["fit_intercept"] = False
    elif how < 0.35:
        params["intercept_scaling"] = pick(rng, 10.0, 0.1, power(rng, -3, 3))
    elif how < 0.35 + free:
        params["penalize_intercept"] = False


def about_weights(rng: Rng, params: dict[str, Any], d: int, tame: bool, columns: int = 1) -> str:
    """Choose a prior, signs or fixed weights; return the choice."""
    what = str(pick(rng, "prior", "covariance", "signs", "fixed", "mixed"))
    decades = 2.0 if tame else 6.0
    if what in ("prior", "mixed"):
        prior: dict[str, Any] = {}
        if chance(rng, 0.7):
            prior["mean"] = rng.normal(size=d) * pick(rng, 1.0, 0.0, power(rng, -decades, decades))
            if columns > 1 and chance(rng, 0.3):
                prior["mean"] = rng.normal(size=(columns, d))
        if chance(rng, 0.7):
            prior[pick(rng, "variance", "precision")] = power(rng, -decades / 2, decades / 2, d)
        if chance(rng, 0.3):
            prior["intercept_mean"] = float(rng.normal())
        params["prior"] = prior
    if what == "covariance":
        T = rng.normal(size=(d, d)) + 2.0 * np.sqrt(d) * np.eye(d)
        params["prior"] = {pick(rng, "covariance", "precision"): T @ T.T / d}
    if what in ("signs", "mixed"):
        sign = rng.integers(-1, 2, d)
        params["nonnegative"] = [int(j) for j in np.flatnonzero(sign > 0)]
        params["nonpositive"] = [int(j) for j in np.flatnonzero(sign < 0)]
    if what == "fixed" or (what == "mixed" and chance(rng, 0.5)):
        taken = {*params.get("nonnegative", []), *params.get("nonpositive", [])}
        size = pick(rng, 1.0, power(rng, -decades, 2))
        fixed = rng.permutation(d)[: int(rng.integers(1, max(2, d)))]
        params["fixed"] = {int(j): float(size * rng.normal()) for j in fixed if int(j) not in taken}
    return what


def given(X: Any, stored: Any) -> Any:
    """X in the form passed to an estimator."""
    if stored is None:
        return X
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    return sp.csr_matrix((X[stored], np.nonzero(stored)[1], indptr), shape=X.shape)


# -- smaller problems ------------------------------------------------------------------------------


def smaller(case: Case, keep: tuple[str, ...] = ()) -> Iterator[Case]:
    """Fewer rows, fewer columns, parameters omitted, rounder numbers."""
    data = case.data
    n = len(data["X"])
    for part in _halves(n):
        yield case.with_data(
            **{k: v[part] for k, v in data.items() if k in BY_ROW and v is not None}
        )
    if not any(data["params"].get(k) for k in ("prior", "fixed", "nonnegative", "nonpositive")):
        for part in _halves(data["X"].shape[1]):
            yield case.with_data(
                X=data["X"][:, part],
                stored=None if data["stored"] is None else data["stored"][:, part],
            )
    for name in ("stored", "sample_weight"):
        if data.get(name) is not None and name not in keep:
            yield case.with_data(**{name: None})
    if data.get("also"):
        yield case.with_data(also="")
    for name in data["params"]:
        if name not in keep:
            yield case.with_data(params={k: v for k, v in data["params"].items() if k != name})
    yield from _rounder(case)


def _halves(n: int) -> Iterator[np.ndarray]:
    """Which of n to keep: one half, the other, then all but an eighth, all but one."""
    seen, size = set(), n // 2
    while size >= 1:
        for lo in range(0, n, size):
            kept = np.concatenate([np.arange(lo), np.arange(min(n, lo + size), n)])
            if 0 < len(kept) < n and kept.tobytes() not in seen:
                seen.add(kept.tobytes())
                yield kept
        size //= 4 if size > 3 else 2


def _rounder(case: Case) -> Iterator[Case]:
    data = case.data
    if data["X"].dtype == np.float32:
        yield case.with_data(X=data["X"].astype(np.float64))
    for digits in (1, 3):
        for name in ("X", "y", "sample_weight"):
            value = data.get(name)
            if value is None or np.asarray(value).dtype.kind != "f":
                continue
            with np.errstate(all="ignore"):
                round_one = np.vectorize(
                    lambda v, digits=digits: float(f"{v:.{digits}g}"), otypes=[float]
                )
                rounded = round_one(value).astype(np.asarray(value).dtype)
            if not np.array_equal(rounded, value):
                yield case.with_data(**{name: rounded})
        for name in ("C", "tol", "epsilon", "intercept_scaling"):
            value = data["params"].get(name)
            if isinstance(value, float) and float(f"{value:.{digits}g}") != value:
                yield case.with_data(params={**data["params"], name: float(f"{value:.{digits}g}")})


# -- code ------------------------------------------------------------------------------------------


def written(value: Any) -> str:
    """A value as Python code."""
    if isinstance(value, np.ndarray):
        kind = (
            ""
            if value.dtype == np.float64 or value.dtype.kind in "iU"
            else f", dtype=np.{value.dtype}"
        )
        return f"np.array({value.tolist()!r}{kind})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, np.generic):
        return repr(value.item())
    return repr(value)


def parameters(params: dict[str, Any]) -> str:
    """Keyword arguments as Python code."""
    out = []
    for name, value in params.items():
        if name == "solver" and value != "auto":
            out.append(f"solver={value}")
        elif name == "prior":
            inner = ", ".join(f"{k}={written(v)}" for k, v in value.items())
            out.append(f"prior=GaussianPrior({inner})")
        else:
            out.append(f"{name}={written(value)}")
    return ", ".join(out)


def lines(case: Case, imports: str) -> list[str]:
    """The first lines of a reproduction: imports and arrays."""
    data = case.data
    out = ["import numpy as np", "import scipy.sparse as sp", imports]
    out.append("from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton")
    out.append(f"X = {written(data['X'])}")
    if data.get("stored") is not None:
        rows, columns = np.nonzero(data["stored"])
        out.append(f"at = {rows.tolist()}, {columns.tolist()}")
        out.append("X = sp.csr_matrix((X[at], at), shape=X.shape)")
    out.append(f"y = {written(np.asarray(data['y']))}")
    return out


def fit_arguments(case: Case) -> str:
    """X, y and the other arguments of ``fit``, as Python code."""
    extra = [
        f", {name}={written(case.data[name])}"
        for name in ("groups", "sample_weight")
        if case.data.get(name) is not None
    ]
    return "X, y" + "".join(extra)
