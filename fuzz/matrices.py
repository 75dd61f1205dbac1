"""Sparse matrices whose arrays were damaged at random, passed to every function that takes one.

    python -m fuzz.matrices --count 5000 --seed 0

A damaged matrix must be refused with a ValueError of the library. One that is merely unusual (unsorted
columns, duplicate entries, explicit zeros, unused capacity) must give the results of the dense matrix.
Anything else, in particular a crash, is a failure. A crash ends the process, so tests run this in a child.
"""

from __future__ import annotations

import argparse
import faulthandler
import pathlib
import sys
import tempfile
import warnings
from collections import Counter
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from maxmargin import KernelSVC, LinearSVC, SequenceTagger, StructuredSVM, data, minimize
from maxmargin.data import CSRDesign, as_design, hstack
from maxmargin.kernels import RBF, NystromMap
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton
from maxmargin.tasks import Enumerable, Graph

FAR = (-1, -(2**31), 2**30, 2**31 - 1)


def matrix(rng: np.random.Generator) -> sp.csr_matrix:
    """A valid matrix, of any types, with or without allowed irregularities."""
    n, d = int(rng.integers(2, 13)), int(rng.integers(1, 13))
    X = sp.random(n, d, float(rng.uniform(0.2, 1.0)), "csr", rng=rng)
    X.data[:] = np.round(32.0 * rng.normal(size=X.nnz)) / 8.0  # sums of them are exact
    if rng.random() < 0.3:
        X = X.astype(np.float32)
    index = np.int64 if rng.random() < 0.5 else np.int32
    indptr, indices, values = X.indptr.astype(index), X.indices.astype(index), X.data
    if rng.random() < 0.3:  # columns in any order
        for lo, hi in pairwise(indptr):
            order = rng.permutation(hi - lo)
            indices[lo:hi], values[lo:hi] = indices[lo:hi][order], values[lo:hi][order]
    if rng.random() < 0.3 and len(indices):  # duplicate entries, which are summed
        lo, hi = _some_row(rng, indptr)
        if hi - lo > 1:
            indices[lo] = indices[lo + 1]
    out = sp.csr_matrix((n, d), dtype=values.dtype)
    if rng.random() < 0.2:  # unused capacity after the last row
        indices = np.append(indices, np.array([7 * d], dtype=index))
        values = np.append(values, values.dtype.type(np.nan))
    out.indptr, out.indices, out.data = indptr, indices, values
    if rng.random() < 0.3:  # SciPy's cached flags from before the arrays changed
        out.has_canonical_format = out.has_sorted_indices = True
    return out


def _some_row(rng: np.random.Generator, indptr: np.ndarray) -> tuple[int, int]:
    i = int(rng.integers(len(indptr) - 1))
    return int(indptr[i]), int(indptr[i + 1])


def damaged(rng: np.random.Generator, X: sp.csr_matrix) -> str:
    """Damage a matrix; return what was done, or "" if nothing could be done."""
    kind = str(
        rng.choice(
            [
                "index",
                "indices",
                "down",
                "beyond",
                "start",
                "short",
                "long",
                "arrays",
                "nan",
                "types",
            ]
        )
    )
    end, d = int(X.indptr[-1]), X.shape[1]
    match kind:
        case "index" | "indices" if end:
            at = rng.integers(end, size=1 if kind == "index" else 3)
            X.indices[at] = rng.choice([*FAR, d, d + 1])
        case "down" if len(X.indptr) > 2 and X.indptr[1:-1].any():
            at = int(rng.integers(1, len(X.indptr) - 1))
            X.indptr[at] = X.indptr[at + 1] + 1 if rng.random() < 0.5 else -3
        case "beyond":
            X.indptr[int(rng.integers(1, len(X.indptr)))] = rng.choice([end + 5, 2**30, 2**31 - 1])
        case "start":
            X.indptr[0] = rng.choice([-1, 1, 2**20])
        case "short":
            X.indptr = X.indptr[:-1].copy()
        case "long":
            X.indptr = np.append(X.indptr, X.indptr[-1:])
        case "arrays" if end:
            X.data = X.data[: end - 1].copy()
        case "nan" if end:
            X.data[int(rng.integers(end))] = rng.choice([np.nan, np.inf, -np.inf])
        case "types" if end:
            X.indices = X.indices.astype(np.float64) - 0.5
        case _:
            return ""
    return kind


def dense(X: sp.csr_matrix) -> np.ndarray:
    """The dense form of a valid matrix, without SciPy."""
    out = np.zeros(X.shape)
    for i in range(X.shape[0]):
        for k in range(int(X.indptr[i]), int(X.indptr[i + 1])):
            out[i, X.indices[k]] += X.data[k]
    return out


def _signs(X: sp.csr_matrix) -> np.ndarray:
    return np.where(np.arange(X.shape[0]) % 2, 1.0, -1.0)


def _product(X: sp.csr_matrix) -> np.ndarray:
    design = as_design(X)
    w, out = np.arange(1.0, X.shape[1] + 1.0), np.zeros(X.shape[1])
    design.accumulate(design.dot(w, 0, X.shape[0]), 0, X.shape[0], out)
    return out


def _design(X: sp.csr_matrix) -> np.ndarray:
    return CSRDesign(X).dot(np.arange(1.0, X.shape[1] + 1.0), 0, X.shape[0])


def _columns(X: sp.csr_matrix) -> np.ndarray:
    design, W = as_design(X), np.arange(3.0 * X.shape[1]).reshape(-1, 3)
    out = np.zeros(W.shape)
    design.accumulate(design.dot(W, 0, X.shape[0]), 0, X.shape[0], out)
    return out


def _stack(X: sp.csr_matrix) -> np.ndarray:
    design = hstack([X, np.ones((X.shape[0], 1))], scale=[2.0, 1.0])
    return design.block(0, X.shape[0]).dot(np.arange(1.0, X.shape[1] + 2.0), 0, X.shape[0])


def _risk(solver: object, X: sp.csr_matrix) -> float:
    return minimize(ScoreRisk(X, _signs(X), Hinge(), intercept=1.0), C=0.1, solver=solver).objective


def _classes(X: sp.csr_matrix) -> float:
    y = np.arange(X.shape[0]) % 3
    return minimize(ScoreRisk(X, y, CrammerSinger(1.0 - np.eye(3))), C=0.1).objective


def _linear(X: sp.csr_matrix) -> float:
    return LinearSVC(C=0.1, loss="hinge").fit(X, _signs(X)).objective_


def _predict(X: sp.csr_matrix) -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(8, X.shape[1]))
    return LinearSVC(C=0.1, loss="hinge").fit(rows, _signs(rows)).decision_function(X)


def _kernel(X: sp.csr_matrix) -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(8, X.shape[1]))
    return KernelSVC(gamma=0.1).fit(rows, _signs(rows)).decision_function(X)


def _kernel_fit(X: sp.csr_matrix) -> float:
    return KernelSVC(gamma=0.1, tol=1e-6).fit(X, _signs(X)).objective_


def _map(X: sp.csr_matrix) -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(8, X.shape[1]))
    return NystromMap(RBF(0.1), rows).transform(X)


def _tagger(X: sp.csr_matrix) -> float:
    labels = [[str(k % 2) for k in range(X.shape[0])], ["0", "1"]]
    rest = sp.csr_matrix(np.ones((2, X.shape[1])))
    return SequenceTagger(C=0.1, tol=1e-6).fit([X, rest], labels).objective_


def _stacked_tagger(X: sp.csr_matrix) -> float:
    labels = [str(k % 2) for k in range(X.shape[0])]
    return SequenceTagger(C=0.1, tol=1e-6).fit(X, labels, lengths=[X.shape[0]]).objective_


def _candidates(X: sp.csr_matrix) -> float:
    return StructuredSVM(Enumerable(), C=0.1, tol=1e-6).fit([X, X], [0, 1]).objective_


def _graph(X: sp.csr_matrix) -> np.ndarray:
    return Graph(X, [[0, 1]]).features @ np.ones(X.shape[1])


def _write(X: sp.csr_matrix) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        rows = data.write(folder, [(X, _signs(X))])
        return rows.dot(np.arange(1.0, X.shape[1] + 1.0), 0, X.shape[0])


def _file(X: sp.csr_matrix) -> np.ndarray:
    """The matrix as a data set on disk: written with valid columns, which are then replaced."""
    with tempfile.TemporaryDirectory() as folder:
        end, n = int(max(0, min(2**16, X.indptr[-1]))), X.shape[0]
        indices = np.zeros(end, dtype="<i4")
        found = X.indices[:end].astype(np.int64).astype("<i4")
        indices[: len(found)] = found
        values = np.zeros(end)
        values[: min(end, len(X.data))] = X.data[:end]
        whole = np.repeat([0, end], [1, n]).astype(np.int64)  # all in the first row, then as given
        pointers = whole.copy()
        pointers[: min(n + 1, len(X.indptr))] = X.indptr[: n + 1]
        sound = sp.csr_matrix(
            (np.ones(end), np.arange(end), whole), shape=(n, max(end, X.shape[1]))
        )
        data.write(folder, [(sound, _signs(X))])
        for name, numbers in (("indices", indices), ("data", values), ("indptr", pointers)):
            next(pathlib.Path(folder).glob(f"*.{name}.bin")).write_bytes(numbers.tobytes())
        rows = data.open(folder)
        scores = rows.dot(np.arange(1.0, sound.shape[1] + 1.0), 0, n)
        rows.take(np.arange(n)[::-1])
        return scores


#: by name: a function of a matrix, and the tolerance of its comparison with the dense result (None: not
#: compared)
ENTRANCES = {
    "as_design": (_product, 1e-9),
    "CSRDesign": (_design, 1e-9),
    "columns": (_columns, 1e-9),
    "hstack": (_stack, 1e-9),
    "CuttingPlane": (lambda X: _risk(CuttingPlane(), X), 1e-2),
    "DualCoordinate": (lambda X: _risk(DualCoordinate(), X), 1e-2),
    "Newton": (lambda X: _risk(Newton(), X), 1e-2),
    "CrammerSinger": (_classes, 1e-2),
    "LinearSVC": (_linear, 1e-2),
    "decision_function": (_predict, 1e-9),
    "KernelSVC": (_kernel_fit, 1e-3),
    "kernel decision": (_kernel, 1e-6),
    "NystromMap": (_map, 1e-9),
    "SequenceTagger": (_tagger, 1e-3),
    "tagger with lengths": (_stacked_tagger, 1e-3),
    "Enumerable": (_candidates, 1e-3),
    "Graph": (_graph, 1e-9),
    "data.write": (_write, 1e-9),
    "data.open": (_file, None),
}
#: other formats, which are made from the arrays without validation
FORMATS = ("csr", "csr", "csr", "csc", "coo", "bsr", "lil", "csr_array")


def as_format(X: sp.csr_matrix, form: str) -> object:
    """The arrays in another format; for CSC they describe the columns."""
    n, d = X.shape
    if form == "csr_array":
        out = sp.csr_array((n, d), dtype=X.dtype)
    elif form == "csc":
        out = sp.csc_matrix((d, n), dtype=X.dtype)
    elif form == "bsr":
        out = sp.bsr_matrix((n, d), dtype=X.dtype, blocksize=(1, 1))
    elif form == "coo":
        out = sp.coo_matrix((n, d), dtype=X.dtype)
        counts = np.clip(np.diff(X.indptr[: n + 1].astype(np.int64)), 0, 100)
        rows = np.repeat(np.arange(len(counts)), counts)
        out.coords = (rows.astype(X.indptr.dtype), X.indices[: len(rows)])
        out.data = X.data[: len(rows)]
        return out
    elif form == "lil":
        out = sp.lil_matrix((n, d), dtype=X.dtype)
        ends = np.clip(X.indptr.astype(np.int64), 0, len(X.indices))
        for i in range(min(n, len(ends) - 1)):
            out.rows[i] = X.indices[ends[i] : ends[i + 1]].tolist()
            out.data[i] = X.data[ends[i] : ends[i + 1]].tolist()
        return out
    else:
        return X
    out.indptr, out.indices = X.indptr, X.indices
    out.data = X.data[:, None, None] if form == "bsr" else X.data
    return out


class Failure(Exception):
    """A result that must not occur."""


def _one(seed: int, number: int) -> str:
    """Try the matrix of this number; return "refused", "right" or "taken", or raise Failure."""
    rng = np.random.default_rng([seed, number])
    X = matrix(rng)
    sound = X.copy() if len(X.indices) == X.indptr[-1] else None
    numbers = dense(X)
    kind = damaged(rng, X) if rng.random() < 0.8 else ""
    name = str(rng.choice(list(ENTRANCES)))
    call, near = ENTRANCES[name]
    form = "csr" if name in ("CSRDesign", "data.open") else str(rng.choice(FORMATS))
    given = as_format(X, form)
    what = f"{name} with {form}, {kind or 'sound'} (--seed {seed}, number {number})"
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = call(given)
    except ValueError as error:
        if type(error).__module__.split(".")[0] not in ("builtins", "maxmargin"):
            raise Failure(f"{what}: {type(error).__name__}: {error}") from error
        if not kind and sound is not None and form in ("csr", "csr_array") and near is not None:
            raise Failure(f"{what}: refused: {error}") from error
        return "refused"
    except Exception as error:
        raise Failure(f"{what}: {type(error).__name__}: {error}") from error
    if not np.isfinite(found).all():
        raise Failure(f"{what}: the result is not finite")
    if kind and form in ("csr", "csr_array") and near is not None:
        raise Failure(f"{what}: not refused")
    if kind or form not in ("csr", "csr_array") or near is None:
        return "taken"  # the damage was lost in conversion: other numbers, but a valid matrix
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = call(sp.csr_matrix(numbers))
    if not np.allclose(found, wanted, rtol=near, atol=1e-6 if near < 1e-6 else near):
        raise Failure(f"{what}: {found} instead of {wanted}")
    return "right"


def main(n: int, seed: int) -> Counter[str]:
    """Try n matrices and count the outcomes. Failures are printed."""
    counts: Counter[str] = Counter()
    for number in range(n):
        try:
            counts[_one(seed, number)] += 1
        except Failure as failure:
            counts["failed"] += 1
            print(failure, file=sys.stderr)
    return counts


if __name__ == "__main__":
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seen = main(options.count, options.seed)
    parts = ", ".join(f"{seen[key]} {key}" for key in ("refused", "right", "taken", "failed"))
    print(f"matrices: {options.count} with seed {options.seed}: {parts}")
    sys.exit(1 if seen["failed"] else 0)
