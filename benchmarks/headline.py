"""The example of README: the hinge loss on breast cancer, not scaled, by LIBLINEAR and here.

    python -m benchmarks.headline

Prints CPU seconds, whether scikit-learn warned, and the bounds. It takes ten seconds or more, LIBLINEAR's.
"""

from __future__ import annotations

import warnings

import numpy as np
import sklearn.svm
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from benchmarks.common import cpu


def main() -> None:
    """Fit with both and print."""
    X, y = load_breast_cancer(return_X_y=True)
    signs = np.where(y == 1, 1.0, -1.0)
    maxmargin.LinearSVC(loss="hinge").fit(X, y)  # compiles
    began = cpu()
    ours = maxmargin.LinearSVC(C=1.0, loss="hinge", tol=1e-3).fit(X, y)
    seconds = cpu() - began
    print(
        f"maxmargin: {seconds:.3f} s, {ours.lower_bound_:.3f} <= optimum <= {ours.objective_:.3f}"
    )
    for loss, limit in (("hinge", 1_000), ("hinge", 1_000_000), ("squared_hinge", 1_000)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            began = cpu()
            svc = sklearn.svm.LinearSVC(C=1.0, loss=loss, max_iter=limit, random_state=0).fit(X, y)
            seconds = cpu() - began
        slack = np.maximum(0.0, 1.0 - signs * svc.decision_function(X))
        norm = 0.5 * (np.sum(svc.coef_**2) + np.sum(svc.intercept_**2))
        objective = norm + float(np.sum(slack if loss == "hinge" else slack**2))
        warned = "warns" if caught else "converges"
        print(
            f"LIBLINEAR, loss={loss!r}, max_iter={limit}: {seconds:.2f} s, {warned}, F = {objective:.3f}"
        )


if __name__ == "__main__":
    main()
