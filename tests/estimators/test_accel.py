"""``maxmargin.accel``: an unchanged script gets the same models, whose pickles load without this library."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = """
import pickle, sys
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

X, y = load_iris(return_X_y=True)
two, sparse = (X[:100], y[:100]), (sp.csr_matrix(X), y)
regression = load_diabetes(return_X_y=True)
fits = [
    *(SVC(C=10.0).fit(*data) for data in ((X, y), two, sparse)),
    SVC(kernel="linear", class_weight="balanced", decision_function_shape="ovo").fit(X, y),
    SVC(kernel="sigmoid").fit(X, y),
    SVR(kernel="linear", C=10.0).fit(*regression),
    LinearSVC(tol=1e-7).fit(X, y),
    LinearSVC(penalty="l1", dual=False, random_state=0).fit(X, y),
    LinearSVC(tol=1e-7, fit_intercept=False).fit(*sparse),
    LinearSVR(loss="squared_epsilon_insensitive", tol=1e-7).fit(*regression),
    LogisticRegression(tol=1e-7).fit(X, y),
    LogisticRegression(tol=1e-7, class_weight="balanced").fit(*two),
]
inputs = [X, two[0], sparse[0], X, X, regression[0], X, X, sparse[0], regression[0], X, two[0]]
shown = [getattr(f, "decision_function", f.predict)(Z) for f, Z in zip(fits, inputs)]
search = GridSearchCV(LinearSVC(random_state=0), {"penalty": ["l1", "l2"], "dual": [False]}).fit(X, y)
assert isinstance(search.best_estimator_, LinearSVC)
try:
    LinearSVC(C=-1.0).fit(X, y)
    raise AssertionError
except ValueError as error:
    message = str(error)
pickle.dump((fits, inputs, shown, search.cv_results_["mean_test_score"], message, sys.argv[1:]),
            open(sys.argv[1], "wb"))
"""


def _run(folder: Path, *switch: str) -> tuple[Path, str]:
    (folder / "script.py").write_text(SCRIPT)
    out = folder / f"out{len(switch)}"
    command = [sys.executable, *switch, str(folder / "script.py"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out, done.stderr


def test_a_script_gets_the_same_models_and_pickles_that_scikit_learn_loads(tmp_path: Path) -> None:
    plain, _ = _run(tmp_path)
    switched, report = _run(tmp_path, "-m", "maxmargin.accel", "-v")
    one, other = (pickle.loads(path.read_bytes()) for path in (plain, switched))
    for before, after, model in zip(one[2], other[2], other[0], strict=True):
        assert before.shape == after.shape
        scale = 1.0 + np.abs(before).max()
        assert np.abs(before - after).max() <= 0.02 * scale, f"{model}: other scores"
        assert type(model).__module__.startswith("sklearn."), "pickled under scikit-learn's name"
    for model in other[0]:
        names = {name for name in vars(model) if name.endswith("_")}
        twin = next(m for m in one[0] if repr(m) == repr(model))
        assert {name for name in vars(twin) if name.endswith("_")} <= names | {"fit_status_"}
    np.testing.assert_allclose(one[3], other[3], atol=0.03)
    assert one[4] == other[4], "scikit-learn's own message about a wrong parameter"
    lines = report.splitlines()
    assert sum("fitted by maxmargin" in line for line in lines) >= 10
    assert "maxmargin.accel: SVC(kernel='sigmoid') fitted by scikit-learn" in report
    assert "fitted by scikit-learn: penalty='l1'" in report


def test_a_pickle_needs_nothing_of_this_library(tmp_path: Path) -> None:
    out, _ = _run(tmp_path, "-m", "maxmargin.accel")
    program = (
        "import pickle, sys, numpy as np\n"
        "sys.modules['maxmargin'] = None\n"
        "fits, inputs, shown, *_ = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for fit, X, known in zip(fits, inputs, shown):\n"
        "    assert np.array_equal(getattr(fit, 'decision_function', fit.predict)(X), known)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(out)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stderr


def test_a_module_and_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text("import sys; print(__name__, sys.argv[1:])")
    done = subprocess.run(
        [sys.executable, "-m", "maxmargin.accel", "-m", "told", "-v", "3"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.stdout.strip() == "__main__ ['-v', '3']"
