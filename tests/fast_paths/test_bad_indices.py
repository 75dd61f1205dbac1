"""Compiled code gets no index or pointer that leaves its array: damaged sparse matrices are refused, and odd
ones give the numbers of the dense matrix."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import GaussianPrior, LinearSVC
from maxmargin.data import CSRDesign, DenseDesign, as_design

ROOT = Path(__file__).parents[2]


def rows():
    X = sp.random(40, 20, 0.4, "csr", rng=np.random.default_rng(0))
    return X, np.where(np.arange(40) % 2, 1.0, -1.0)


def tried(count, seed):
    """Random damage, in a process of its own: a crash is an exit code."""
    command = [sys.executable, "-m", "fuzz.matrices", "--count", str(count), "--seed", str(seed)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"matrices: {count} with seed {seed}: " in done.stdout
    assert done.stdout.endswith(" 0 failed\n")


def test_random_damage():
    tried(40, 1)


@pytest.mark.nightly
def test_more_random_damage():
    tried(5000, 0)


@pytest.mark.parametrize("number", [2**30, 20, -1])
def test_one_wrong_index(number):
    X, y = rows()
    X.indices[10] = number
    where = int(np.searchsorted(X.indptr, 10, side="right")) - 1
    text = f"X is damaged: row {where} has an entry in column {number}, but its columns are 0 to 19"
    with pytest.raises(ValueError, match=text):
        LinearSVC(loss="hinge").fit(X, y)
    fitted = LinearSVC(loss="hinge").fit(rows()[0], y)
    for take in (as_design, CSRDesign, fitted.predict):
        with pytest.raises(ValueError, match=text):
            take(X)


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda X: X.indptr.__setitem__(5, 10**6), "indptr must not decrease, but row 5 begins"),
        (lambda X: X.indptr.__setitem__(-1, 10**6), "indptr ends with 1000000, but 320 entries"),
        (lambda X: X.indptr.__setitem__(0, 3), "indptr must begin with 0, not with 3"),
        (lambda X: setattr(X, "indptr", X.indptr[:-2]), "indptr has 39 numbers for 40 rows"),
        (lambda X: setattr(X, "data", X.data[:9]), "indptr ends with 320, but 9 entries"),
    ],
)
def test_wrong_pointers_and_arrays(edit, text):
    X, y = rows()
    edit(X)
    for take in (lambda X: LinearSVC(loss="hinge").fit(X, y), as_design, CSRDesign):
        with pytest.raises(ValueError, match=text):
            take(X)


def test_other_formats_are_looked_at_before_they_are_converted():
    X, y = rows()
    for kind in (sp.csc_matrix, sp.bsr_matrix, sp.coo_matrix, sp.csc_array):
        bad = kind(rows()[0])  # its own arrays
        (bad.coords[1] if bad.format == "coo" else bad.indices)[3] = 2**30
        with pytest.raises(ValueError, match="damaged"):
            LinearSVC(loss="hinge").fit(bad, y)
    bad = sp.lil_matrix(X)
    bad.data[3] = [1.0] * 50
    with pytest.raises(ValueError, match="damaged"):
        LinearSVC(loss="hinge").fit(bad, y)
    covariance = sp.identity(20, format="csr")
    covariance.indices[3] = 2**30
    with pytest.raises(ValueError, match="damaged"):
        GaussianPrior(covariance=covariance)


def test_order_and_repeats_do_not_matter():
    X, y = rows()
    wanted = LinearSVC(tol=1e-8, loss="hinge").fit(X, y)
    turned = X.copy()
    for lo, hi in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        turned.indices[lo:hi] = X.indices[lo:hi][::-1]
        turned.data[lo:hi] = X.data[lo:hi][::-1]
    turned.has_canonical_format = True  # as SciPy remembers it
    twice = sp.csr_matrix(
        (np.repeat(0.5 * X.data, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )
    for odd in (turned, twice):
        before = odd.indices.copy()
        found = LinearSVC(tol=1e-8, loss="hinge").fit(odd, y)
        assert found.objective_ == pytest.approx(wanted.objective_, rel=1e-7)
        np.testing.assert_allclose(
            found.decision_function(odd), wanted.decision_function(X), atol=1e-3
        )
        np.testing.assert_array_equal(odd.indices, before)  # the user's own stays as it is


@pytest.mark.parametrize("design", [CSRDesign(rows()[0]), DenseDesign(rows()[0].toarray())])
def test_products_of_other_shapes_are_refused(design):
    wide, tall = np.ones((21, 2)), np.ones((40, 2))
    for W, lo, hi in (
        (np.ones(19), 0, 40),
        (wide[:20, 0], 0, 41),
        (wide[:20, 0], -1, 3),
        (wide, 0, 4),
    ):
        with pytest.raises(ValueError, match="rows"):
            design.dot(W, lo, hi)
    for coef, out in (
        (tall[:39, 0], np.zeros(20)),
        (tall[:, 0], np.zeros(19)),
        (tall, np.zeros((20, 1))),
    ):
        with pytest.raises(ValueError, match="rows"):
            design.accumulate(coef, 0, 40, out)
