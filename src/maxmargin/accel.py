"""Run a script that was written for scikit-learn with the estimators of this library.

From a terminal, the script stays as it is::

    python -m maxmargin.accel script.py
    python -m maxmargin.accel -v -m package.module

In a notebook or program, call :func:`patch` before scikit-learn's classes are imported.

``LinearSVC``, ``LinearSVR``, ``SVC``, ``SVR`` and ``LogisticRegression`` keep their names, parameters and
methods. Their ``fit`` solves the same problem here, and stores what scikit-learn's own ``fit`` would have
stored, so that all other methods are scikit-learn's. A fit that this library cannot do is scikit-learn's own:
other penalties, probabilities of ``SVC``, kernels that are not positive semidefinite, data that only
scikit-learn accepts. With ``-v`` each fit is reported on standard error, with the reason if it was
scikit-learn's.

A pickled model is one of scikit-learn and loads without this library. Models of worker processes (joblib's
``n_jobs``) are fitted by scikit-learn, unless the workers call :func:`patch`, too.
"""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight

from maxmargin.compat import CLASSES

__all__ = ["patch"]

#: relative gaps that stand for scikit-learn's ``tol``, a threshold on gradients
LOOSEST, TIGHTEST = 1e-4, 1e-8


def patch(*, verbose: bool = False) -> None:
    """Replace scikit-learn's classes by classes whose ``fit`` is that of this library.

    Call it before the classes are imported from scikit-learn: names that were imported earlier still stand
    for scikit-learn's own.

    Parameters
    ----------
    verbose : bool, default False
        Report each fit on standard error: which library fitted, and why.

    Examples
    --------
    >>> import subprocess, sys
    >>> program = '''
    ... from maxmargin.accel import patch
    ... patch(verbose=True)
    ... from sklearn.datasets import load_iris
    ... from sklearn.svm import SVC
    ... print(SVC().fit(*load_iris(return_X_y=True)).score(*load_iris(return_X_y=True)).__round__(2))
    ... '''
    >>> done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    >>> done.stdout.strip(), done.stderr.strip()
    ('0.97', 'maxmargin.accel: SVC() fitted by maxmargin')
    """
    for name, modules in CLASSES.items():
        home = importlib.import_module(modules[-1])
        switched = _switched(getattr(home, name), verbose)
        for module in modules:
            setattr(importlib.import_module(module), name, switched)


class _Unsupported(Exception):
    """Why scikit-learn fits."""


def _switched(original: Any, verbose: bool) -> type[BaseEstimator]:
    """A subclass with another ``fit``, which is found and pickled under the name of the original."""
    original = getattr(original, "_without_switch", original)

    @wraps(original.fit)
    def fit(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        try:
            _FITS[original.__name__](self, X, y, sample_weight)
            note = "fitted by maxmargin"
        except _Unsupported as reason:
            note = f"fitted by scikit-learn: {reason}"
            original.fit(self, X, y, sample_weight)
        if verbose:
            print(f"maxmargin.accel: {self} {note}".replace("\n", " "), file=sys.stderr)  # noqa: T201
        return self

    names = ("__module__", "__qualname__", "__doc__")
    own = {"fit": fit, "_without_switch": original, **{k: getattr(original, k) for k in names}}
    return type(original.__name__, (original,), own)


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise _Unsupported(why)


def _fitted(
    self: Any, ours: Any, X: Any, y: Any, sample_weight: Any, names: tuple[str, ...]
) -> Any:
    """Fit our estimator, and store what scikit-learn's fits store as well.

    ``names``: parameters that both have.
    """
    try:
        self._validate_params()
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            ours.set_params(**{name: getattr(self, name) for name in names})
            ours.set_params(tol=float(np.clip(self.tol, TIGHTEST, LOOSEST))).fit(
                X, y, sample_weight
            )
    except (ValueError, TypeError, MemoryError, ConvergenceWarning) as error:
        # scikit-learn may accept it, and its own message is what a script may expect
        raise _Unsupported(str(error).split("\n")[0]) from error
    for name in ("classes_", "n_features_in_", "feature_names_in_"):
        if hasattr(ours, name):
            setattr(self, name, getattr(ours, name))
    for name in ("objective_", "lower_bound_", "gap_"):
        setattr(self, name, getattr(ours, name))
    return ours


def _fit_linear_svc(self: Any, X: Any, y: Any, sample_weight: Any) -> None:
    from maxmargin import LinearSVC

    _require(self.penalty == "l2", f"penalty={self.penalty!r}")
    _require(self.loss != "hinge" or self.dual is not False, "dual=False with loss='hinge'")
    names = ("C", "loss", "multi_class", "fit_intercept", "intercept_scaling", "class_weight")
    ours = _fitted(self, LinearSVC(), X, y, sample_weight, names)
    self.coef_, self.n_iter_ = ours.coef_, ours.n_iter_
    self.intercept_ = ours.intercept_ if self.fit_intercept else 0.0


def _fit_linear_svr(self: Any, X: Any, y: Any, sample_weight: Any) -> None:
    from maxmargin import LinearSVR

    squared = self.loss == "squared_epsilon_insensitive"
    _require(squared or self.dual is not False, f"dual=False with loss={self.loss!r}")
    names = ("C", "loss", "epsilon", "fit_intercept", "intercept_scaling")
    ours = _fitted(self, LinearSVR(), X, y, sample_weight, names)
    self.coef_, self.n_iter_ = ours.coef_, ours.n_iter_
    self.intercept_ = ours.intercept_ if self.fit_intercept else 0.0


def _fit_logistic(self: Any, X: Any, y: Any, sample_weight: Any) -> None:
    from maxmargin import LogisticRegression

    _require(self.penalty in ("l2", "deprecated"), f"penalty={self.penalty!r}")
    _require(self.l1_ratio in (0, None), f"l1_ratio={self.l1_ratio!r}")
    _require(np.isfinite(self.C), f"C={self.C!r}")
    _require(self.solver != "liblinear", "solver='liblinear' penalizes the intercept")
    _require(not self.dual, f"dual={self.dual!r}")
    _require(not self.warm_start, f"warm_start={self.warm_start!r}")
    kind = getattr(self, "multi_class", "auto")  # before scikit-learn 1.8
    _require(kind in ("auto", "deprecated"), f"multi_class={kind!r}")
    names = ("C", "fit_intercept", "class_weight")
    ours = _fitted(self, LogisticRegression(), X, y, sample_weight, names)
    kept = getattr(X, "dtype", None) == np.float32  # scikit-learn keeps it
    self.coef_ = ours.coef_.astype(np.float32) if kept else ours.coef_
    self.intercept_ = ours.intercept_.astype(np.float32) if kept else ours.intercept_
    self.n_iter_ = ours.n_iter_


_KERNEL = ("C", "kernel", "degree", "gamma", "coef0")


def _require_kernel(self: Any) -> None:
    _require(not callable(self.kernel), "the kernel is a function")
    _require(self.kernel != "sigmoid", "kernel='sigmoid' is not positive semidefinite")


def _fit_svc(self: Any, X: Any, y: Any, sample_weight: Any) -> None:
    from maxmargin import KernelSVC

    _require_kernel(self)
    _require(self.probability in (False, "deprecated"), f"probability={self.probability!r}")
    ours = KernelSVC(method="exact")
    ours = _fitted(self, ours, X, y, sample_weight, (*_KERNEL, "class_weight"))
    y_, K = np.asarray(y), len(self.classes_)
    self.class_weight_ = compute_class_weight(self.class_weight, classes=self.classes_, y=y_)
    pairs = K * (K - 1) // 2
    self._num_iter = np.full(pairs, np.max(ours.n_iter_), np.int32)
    self.n_iter_ = self._num_iter
    _take_expansion(self, ours, X, ours.n_support_, -1.0 if K == 2 else 1.0)


def _fit_svr(self: Any, X: Any, y: Any, sample_weight: Any) -> None:
    from maxmargin import KernelSVR

    _require_kernel(self)
    ours = KernelSVR(method="exact")
    ours = _fitted(self, ours, X, y, sample_weight, (*_KERNEL, "epsilon"))
    self.class_weight_ = np.empty(0)
    self._num_iter = np.array([np.max(ours.n_iter_)], np.int32)
    self.n_iter_ = int(self._num_iter[0])
    _take_expansion(self, ours, X, np.array([len(ours.support_), 0]), 1.0)


def _take_expansion(self: Any, ours: Any, X: Any, n_support: Any, sign: float) -> None:
    """Store what scikit-learn's predictions read. LIBSVM's signs are the opposite ones for two classes."""
    self._sparse = bool(sp.issparse(X))
    self.support_ = ours.support_.astype(np.int32)
    self._n_support = np.asarray(n_support, np.int32)
    vectors = ours.support_vectors_
    if sp.issparse(vectors):
        vectors = sp.csr_matrix(vectors, dtype=np.float64)
        vectors.indices, vectors.indptr = (
            vectors.indices.astype(np.int32),
            vectors.indptr.astype(np.int32),
        )
        self.support_vectors_ = vectors
    else:
        self.support_vectors_ = np.ascontiguousarray(vectors, np.float64)
    dual = np.ascontiguousarray(ours.dual_coef_, np.float64)
    self.dual_coef_, self._dual_coef_ = (_as_stored(v, self._sparse) for v in (dual, sign * dual))
    self.intercept_ = np.array(ours.intercept_, np.float64)
    self._intercept_ = sign * self.intercept_
    self._probA = self._probB = np.empty(0)
    self.fit_status_, self.shape_fit_ = 0, ours.shape_fit_
    self._gamma = float(getattr(ours.kernel_, "gamma", 0.0))
    self._effective_probability = False


def _as_stored(dual: Any, sparse: bool) -> Any:
    """Coefficients as LIBSVM's functions for dense or sparse data read them; the latter store zeros, too."""
    if not sparse:
        return dual
    height, n = dual.shape
    columns = np.tile(np.arange(n, dtype=np.int32), height)
    ends = (
        np.arange(0, (height + 1) * n, n, dtype=np.int32) if n else np.zeros(height + 1, np.int32)
    )
    return sp.csr_matrix((dual.ravel(), columns, ends), shape=dual.shape)


_FITS: dict[str, Callable[[Any, Any, Any, Any], None]] = {
    "LinearSVC": _fit_linear_svc,
    "LinearSVR": _fit_linear_svr,
    "LogisticRegression": _fit_logistic,
    "SVC": _fit_svc,
    "SVR": _fit_svr,
}


def main(arguments: list[str]) -> None:
    """Run a script or module after :func:`patch`."""
    parser = argparse.ArgumentParser(
        prog="python -m maxmargin.accel",
        description="Run a script; scikit-learn's SVMs and logistic regression are fitted by maxmargin.",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="report every fit")
    parser.add_argument("-m", action="store_true", dest="module", help="the target is a module")
    parser.add_argument("target", help="script or module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")
    chosen = parser.parse_args(arguments)
    patch(verbose=chosen.verbose)
    sys.argv = [chosen.target, *chosen.arguments]
    if chosen.module:
        runpy.run_module(chosen.target, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(chosen.target, run_name="__main__")


if __name__ == "__main__":
    # under its own name, so that what is pickled does not refer to __main__
    importlib.import_module("maxmargin.accel").main(sys.argv[1:])
