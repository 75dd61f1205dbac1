"""The peak of memory of fits of rows in narrow types, measured by a child process."""

import os
import subprocess
import sys

import pytest

CHILD = """
import resource, sys
import numpy as np
from maxmargin import LinearSVC, LinearSVCCV, LogisticRegression, MeasureSVC
from maxmargin.data import Quantized

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

name, kind, megabytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
estimators = {
    "logistic": LogisticRegression(C=1e-3, tol=1e-2),
    "two": LogisticRegression(C=1e-3, tol=1e-2),
    "svc": LinearSVC(C=1e-3, tol=1e-2),
    "hinge": LinearSVC(C=1e-5, tol=1e-1, loss="hinge"),
    "search": LinearSVCCV(Cs=[1e-4, 1e-3], cv=2, tol=1e-1),
    "measure": MeasureSVC(C=1e-2, tol=2e-1),
}
model, d = estimators[name], 512
K = 2 if name in ("hinge", "measure", "two") else 8
rng = np.random.default_rng(0)
centers = 0.2 * rng.normal(size=(K, d)).astype(np.float32)

def made(n):
    codes = np.empty((n, d), np.float16 if kind == "float16" else np.int8)
    y = rng.integers(0, K, n)
    for lo in range(0, n, 1000):
        rows = rng.standard_normal((min(n, lo + 1000) - lo, d), np.float32) + centers[y[lo:lo + 1000]]
        codes[lo:lo + 1000] = rows if kind == "float16" else np.clip(np.rint(32 * rows), -127, 127)
    return (Quantized(codes, 1 / 32) if kind == "quantized" else codes), y

model.fit(*made(6000))  # loads what a fit loads
model.predict(made(6000)[0])
before = peak()
X, y = made(megabytes * 10**6 // (d * (2 if kind == "float16" else 1)))
model.fit(X, y)
model.predict(X)
print((peak() - before) / X.nbytes, getattr(model, "history_", [{}])[-1].get("method"))
"""


def share(name, kind, megabytes):
    """Peak of making the rows, the fit and predictions, in units of the rows."""
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_TRIM_THRESHOLD_": "0"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, name, kind, str(megabytes)],
        capture_output=True, text=True, env={**os.environ, **one}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[0])


@pytest.mark.parametrize(("name", "kind"), [("logistic", "float16"), ("svc", "quantized")])
def test_a_fit_takes_little_more_than_the_rows(name, kind):
    assert share(name, kind, 200) < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "hinge", "search", "measure"])
def test_other_methods_take_little_more(name):
    assert share(name, "float16", 200) < 1.15


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["float16", "int8", "quantized"])
@pytest.mark.parametrize("name", ["logistic", "svc"])
def test_a_gigabyte(name, kind):
    assert share(name, kind, 1000) < 1.15
