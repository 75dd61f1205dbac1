"""Quantile regression at equal pinball loss: QuantileRegressor (HiGHS), statsmodels, and quantile-forest.

The 0.9 quantile of a linear function of ten normal features, with noise whose spread depends on the first.
Ours has C = 1 and an unpenalized intercept, and certifies a relative gap of 1e-3. HiGHS and statsmodels have
no penalty and their defaults. Losses of training samples are relative to the least one found. quantile-forest
is another model, with its defaults; compare its loss of other samples. A method that takes longer than its
limit is not given more samples. Needs statsmodels and quantile-forest from PyPI.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

TITLE = "Quantile regression at equal pinball loss"
SIZES, LARGE = (1_000, 10_000, 100_000, 1_000_000), 10_000_000
Q, FEATURES, OTHERS = 0.9, 10, 100_000
#: CPU seconds of a fit from which on a method is not given more samples
LIMIT = {"ours": 1e9, "HiGHS": 4.0, "statsmodels": 20.0, "quantile-forest": 4.0}


def data(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Samples and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES)).astype(np.float32)
    noise = rng.normal(size=n) * np.exp(0.5 * X[:, 0])
    return X, 3.0 + X @ np.linspace(-1.0, 1.0, FEATURES) + noise


def pinball(y: Any, said: Any) -> float:
    """The mean pinball loss."""
    return float(np.mean(np.maximum(Q * (y - said), (Q - 1.0) * (y - said))))


def fit(method: str, X: Any, y: Any) -> Callable[[Any], Any]:
    """Fit, and return the function of predictions."""
    if method == "ours":
        from maxmargin import LinearSVR

        svr = LinearSVR(1.0, loss="quantile", quantile=Q, penalize_intercept=False)
        return svr.fit(X, y).predict
    if method == "HiGHS":
        from sklearn.linear_model import QuantileRegressor

        return QuantileRegressor(quantile=Q, alpha=0.0, solver="highs").fit(X, y).predict
    if method == "statsmodels":
        from statsmodels.regression.quantile_regression import QuantReg

        w = QuantReg(y, np.c_[np.ones(len(X)), X]).fit(q=Q).params
        return lambda rows: w[0] + rows @ w[1:]
    from quantile_forest import RandomForestQuantileRegressor

    forest = RandomForestQuantileRegressor(n_jobs=1, random_state=0).fit(X, y)
    return lambda rows: forest.predict(rows, quantiles=Q)


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit."""
    warnings.simplefilter("ignore")
    method, n = spec["method"], spec["n"]
    fit(method, *data(200))  # compiles and imports
    X, y = data(n)
    began = cpu()
    predict = fit(method, X, y)
    seconds = cpu() - began
    began = cpu()
    other, target = data(min(n, OTHERS), 1)
    held = pinball(target, predict(other))
    predicting = cpu() - began
    trained = pinball(y, predict(X)) if method != "quantile-forest" else None
    return {"seconds": seconds, "loss": trained, "held": held, "predicting": predicting}


def table(bench: Bench) -> None:
    """All sizes."""
    rows: list[Row] = []
    open_methods = list(LIMIT)
    sizes = (*SIZES, LARGE) if "large" in bench.flags else SIZES
    for n in sizes[:2] if bench.quick else sizes:
        found = {
            method: bench.inline(f"{method} {n}", partial(cell, {"method": method, "n": n}, bench))
            for method in open_methods
        }
        trained = [part["loss"] for part in found.values() if part["loss"] is not None]
        for method, part in found.items():
            worse = None if part["loss"] is None else part["loss"] / min(trained) - 1.0
            rows.append(
                {
                    "n": n,
                    "method": method,
                    "CPU s": part["seconds"],
                    "times ours": round(part["seconds"] / found["ours"]["seconds"], 1),
                    "loss / least - 1": worse,
                    "loss of other samples": round(part["held"], 4),
                }
            )
        open_methods = [m for m in open_methods if found[m]["seconds"] < LIMIT[m]]
        if n >= 1_000_000:
            open_methods = ["ours"]
    limits = ", ".join(f"{limit:g} ({name})" for name, limit in LIMIT.items() if limit < 1e9)
    notes = f"""
The 0.9 quantile of {FEATURES} features. A method that took longer than {limits} CPU seconds was not given
more samples. With `--large`, there are 10,000,000 samples as well, only for ours.
"""
    bench.save(TITLE, [("fits", "Fits", rows, notes)])


if __name__ == "__main__":
    command_line("quantiles", TITLE, cell, table, {"large": "ours with 10 million samples, too"})
