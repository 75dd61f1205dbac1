"""Random numbers with extreme values, and how a problem is reduced and printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.framework import Case

Rng = np.random.Generator


def power(rng: Rng, low: float, high: float) -> float:
    """10 to a random power; an integer power half of the time."""
    exponent = rng.uniform(low, high)
    return float(10.0 ** (round(exponent) if rng.random() < 0.5 else exponent))


def maybe(rng: Rng, share: float) -> bool:
    """True with this probability."""
    return bool(rng.random() < share)


def strength(rng: Rng, tame: bool) -> float:
    """C."""
    if maybe(rng, 0.2):
        return 1.0
    return power(rng, -4, 6) if tame else power(rng, -10, 10)


def tolerance(rng: Rng, tame: bool) -> dict[str, float]:
    """The parameter tol; tame problems have the default."""
    return {} if tame or maybe(rng, 0.3) else {"tol": power(rng, -10, -1)}


def spread(rng: Rng, tame: bool) -> float:
    """A scale."""
    return power(rng, -4, 4) if tame else power(rng, -12, 12)


def columns(rng: Rng, d: int, tame: bool) -> Any:
    """Factors of columns: often all one, or one common factor; occasionally zeros and extreme values."""
    kind = rng.random()
    if kind < 0.35:
        factors = np.ones(d)
    elif kind < 0.6:
        factors = np.full(d, spread(rng, tame))
    else:
        factors = np.array([spread(rng, tame) for _ in range(d)])
    if maybe(rng, 0.15):
        factors[rng.integers(d)] = 0.0
    return factors


def rows(rng: Rng, shape: tuple[int, ...], factors: Any, tame: bool) -> Any:
    """Feature values: normal, small integers, ones and zeros; occasionally scaled."""
    kind = rng.integers(5)
    if kind == 0:
        X = rng.integers(-2, 3, shape).astype(float)
    elif kind == 1:
        X = rng.integers(0, 2, shape).astype(float)
    elif kind == 2:
        X = np.where(rng.random(shape) < 0.5, 0.0, rng.normal(size=shape))
    else:
        X = rng.normal(size=shape)
    if maybe(rng, 0.15):
        X = X * spread(rng, tame)
    return X * factors


def weights(rng: Rng, n: int) -> list[float] | None:
    """Weights of examples: None, or some of them zero, but never all."""
    if maybe(rng, 0.6):
        return None
    out = rng.choice([0.0, 1.0, 0.5, 3.0, 1e-3, 1e3], n, p=[0.25, 0.35, 0.1, 0.1, 0.1, 0.1])
    if not out.any():
        out[rng.integers(n)] = 1.0
    return [float(v) for v in out]


def duplicated(rng: Rng, X: list[Any], y: list[Any]) -> None:
    """Repeat some examples, with the labels of others where they fit."""
    for i in range(len(X)):
        if maybe(rng, 0.15):
            j = int(rng.integers(len(X)))
            X[i] = X[j].copy()
            if maybe(rng, 0.5) or len(y[i]) != len(X[j]):
                y[i] = list(y[j])


def text(value: Any) -> str:
    """A value as Python code, with all its digits."""
    if isinstance(value, np.ndarray):
        kind = "" if value.dtype == np.float64 else f", dtype={value.dtype.name!r}"
        if value.size == 0:
            return f"np.zeros({value.shape}{kind})"
        return f"np.array({value.tolist()!r}{kind})"
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, list):
        return "[" + ", ".join(text(v) for v in value) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(text(v) for v in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(k)}: {text(v)}" for k, v in value.items()) + "}"
    return repr(value)


def code(*lines: str) -> str:
    """A program, after the imports of what parameters may be."""
    head = (
        "import numpy as np",
        "import scipy.sparse as sp",
        "from maxmargin import *",
        "from maxmargin.solvers import *",
    )
    return "\n".join([*head, *lines])


def keywords(params: dict[str, Any]) -> str:
    """Keyword arguments as Python code; solvers are already code."""
    parts = []
    for name, value in params.items():
        code = value if name in ("solver", "prior") and value != "auto" else text(value)
        parts.append(f"{name}={code}")
    return ", ".join(parts)


def fewer_examples(case: Case, names: tuple[str, ...]) -> Iterator[Case]:
    """Half of the examples, or one fewer; the data in ``names`` have one entry per example."""
    n = len(case.data[names[0]])

    def keep(which: list[int]) -> Case:
        changes = {}
        for name in names:
            value = case.data[name]
            changes[name] = None if value is None else [value[i] for i in which]
        return case.with_data(**changes)

    if n > 2:
        yield keep(list(range(n // 2)))
        yield keep(list(range(n // 2, n)))
    if n > 1:
        for i in range(n):
            yield keep([j for j in range(n) if j != i])


def fewer_options(case: Case, keep: tuple[str, ...] = ()) -> Iterator[Case]:
    """One parameter fewer, and no further checks."""
    params = case.data["params"]
    for name in params:
        if name not in keep:
            rest = {k: v for k, v in params.items() if k != name}
            yield case.with_data(params=rest)
    for name in ("more", "sample_weight", "token_weight"):
        if case.data.get(name):
            yield case.with_data(**{name: None})
    if "C" in params and params["C"] != 1.0:
        rounded = 10.0 ** round(np.log10(params["C"]))
        if rounded != params["C"]:
            yield case.with_data(params={**params, "C": rounded})
    if "tol" in params:
        rounded = 10.0 ** round(np.log10(params["tol"]))
        if rounded != params["tol"]:
            yield case.with_data(params={**params, "tol": rounded})


def simpler_numbers(case: Case, name: str = "X") -> Iterator[Case]:
    """Dropped columns, zeros, and fewer digits."""
    X = case.data[name]
    d = X[0].shape[-1]
    for k in range(d if d > 1 else 0):
        yield case.with_data(**{name: [np.delete(x, k, axis=-1) for x in X]})
    for digits in (0, 1, 2):
        rounded = [_digits(x, digits) for x in X]
        if any((a != b).any() for a, b in zip(rounded, X, strict=True)):
            yield case.with_data(**{name: rounded})
    for i, x in enumerate(X):
        if np.count_nonzero(x) > 1:
            for place in np.argwhere(x != 0)[:6]:
                other = x.copy()
                other[tuple(place)] = 0.0
                yield case.with_data(**{name: [*X[:i], other, *X[i + 1 :]]})


def _digits(x: Any, digits: int) -> Any:
    out = np.array([float(f"{v:.{digits}e}") for v in np.asarray(x, dtype=np.float64).ravel()])
    return out.reshape(x.shape).astype(x.dtype)
