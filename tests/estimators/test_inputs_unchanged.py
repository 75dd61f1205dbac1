"""Fits, predictions, scores and writers leave their inputs as they are, byte for byte, and give the same
model for the same numbers in any form.

SciPy sorts and sums duplicates in place where a method of a matrix needs it, also in a matrix that shares
only some of its arrays with the matrix of the user."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import maxmargin
from maxmargin import data, tasks
from maxmargin.kernels import EmpiricalMap

N, D = 24, 6
RNG = np.random.default_rng(0)
ROWS = np.where(RNG.random((N, D)) < 0.6, RNG.normal(size=(N, D)), 0.0)
BINARY = np.where(ROWS @ np.arange(1.0, D + 1.0) + 0.3 * RNG.normal(size=N) > 0.0, 1, -1)
THREE = np.argmax(ROWS[:, :3] + 0.2 * RNG.normal(size=(N, 3)), axis=1)
TARGET = ROWS[:, 0] - ROWS[:, 1] + 0.3 * RNG.normal(size=N)
QUERIES = np.repeat(np.arange(6), 4)
#: matrices of four rows each: bags, sequences, candidates
FOURS = [slice(4 * k, 4 * k + 4) for k in range(6)]


# -- the forms -----------------------------------------------------------------------------------------


def csr(index=np.int32, order="sorted", container=sp.csr_matrix, dtype=np.float64):
    """The rows with these indices: sorted, unsorted, or with every entry in two halves."""

    def make(rows, folder):
        X = sp.csr_matrix(rows.astype(dtype))
        parts = [np.arange(lo, hi)[::-1] for lo, hi in zip(X.indptr, X.indptr[1:], strict=False)]
        at, twice = np.concatenate([*parts, []]).astype(int), 1
        if order == "duplicates":
            at, twice = np.concatenate([np.r_[own, own[::-1]] for own in parts]).astype(int), 2
        if order == "sorted":
            at = at[np.argsort(at)]
        out = container((X.data[at] / twice, X.indices[at], twice * X.indptr), shape=X.shape)
        out.indices, out.indptr = out.indices.astype(index), out.indptr.astype(index)
        return out

    return make


def coo(rows, folder):
    """Shuffled, and every entry in two halves."""
    X = sp.coo_matrix(rows)
    at = np.random.default_rng(1).permutation(np.tile(np.arange(X.nnz), 2))
    return sp.coo_matrix((0.5 * X.data[at], (X.row[at], X.col[at])), shape=X.shape)


def frozen(make):
    """Of read-only arrays."""

    def made(rows, folder):
        X = make(rows, folder)
        for own in arrays(X):
            own.setflags(write=False)
        return X

    return made


def mapped(make):
    """Of read-only memory maps."""

    def made(rows, folder):
        X, count = make(rows, folder), len(list(folder.iterdir()))

        def stored(own):
            nonlocal count
            count += 1
            np.save(folder / f"{count}.npy", own)
            return np.load(folder / f"{count}.npy", mmap_mode="r")

        if not sp.issparse(X):
            return stored(X)
        X.data, X.indices, X.indptr = stored(X.data), stored(X.indices), stored(X.indptr)
        return X

    return made


def swapped(rows, folder):
    """A matrix with arrays in the other byte order."""
    X = csr(order="unsorted")(rows, folder)
    X.data, X.indices = X.data.astype(">f8"), X.indices.astype(">i4")
    X.indptr = X.indptr.astype(">i4")
    return X


FORMS = {
    "csr": csr(),
    "csr int64": csr(np.int64),
    "csr unsorted": csr(order="unsorted"),
    "csr int64 unsorted": csr(np.int64, "unsorted"),
    "csr duplicates": csr(order="duplicates"),
    "csr int64 duplicates": csr(np.int64, "duplicates"),
    "csr array": csr(np.int64, "unsorted", sp.csr_array),
    "csr float32": csr(order="unsorted", dtype=np.float32),
    "csr read-only": frozen(csr(order="unsorted")),
    "csr int64 read-only": frozen(csr(np.int64, "duplicates")),
    "csr mapped": mapped(csr(order="unsorted")),
    "csr other byte order": swapped,
    "csc": lambda rows, folder: sp.csc_matrix(rows),
    "csc unsorted": lambda rows, folder: csr(np.int64, "unsorted")(rows.T, folder).T,
    "csc duplicates": lambda rows, folder: csr(np.int64, "duplicates")(rows.T, folder).T,
    "coo": coo,
    "coo read-only": frozen(coo),
    "dia": lambda rows, folder: sp.dia_matrix(rows),
    "dense": lambda rows, folder: rows.copy(),
    "fortran": lambda rows, folder: np.asfortranarray(rows),
    "strided": lambda rows, folder: np.repeat(rows, 2, axis=1)[:, ::2],
    "dense read-only": frozen(lambda rows, folder: rows.copy()),
    "dense mapped": mapped(lambda rows, folder: rows.copy()),
    "dense other byte order": lambda rows, folder: rows.astype(">f8"),
}


def arrays(X):
    """All arrays of a matrix."""
    if not sp.issparse(X):
        return [X]
    if X.format == "coo":
        return [X.data, *X.coords]
    return [X.data, X.offsets] if X.format == "dia" else [X.data, X.indices, X.indptr]


def bytes_of(X):
    """The types of the arrays, and what they hold."""
    return [(own.dtype, own.tobytes()) for own in arrays(X)]


# -- the models ----------------------------------------------------------------------------------------


def plain(estimator, y, *more):
    """A fit to the rows, and its predictions and score."""

    def run(make, folder):
        X = make(ROWS, folder)
        own = clone(estimator).fit(X, y, *more)
        for name in ("decision_function", "predict", "predict_proba", "transform"):
            if hasattr(own, name):
                getattr(own, name)(X)
        if hasattr(own, "score"):
            own.score(X, y, *more)
        scores = getattr(own, "decision_function", own.predict)(ROWS)
        return getattr(own, "objective_", 1.0), scores

    return run


def given(make, folder):
    """Kernel values, of which none are sparse."""
    K = make(ROWS @ ROWS.T, folder)
    K = ROWS @ ROWS.T if sp.issparse(K) else K
    own = maxmargin.KernelSVC(kernel="precomputed", **TIGHT).fit(K, BINARY)
    return own.objective_, own.decision_function(K)


def streamed(make, folder):
    X = make(ROWS, folder)
    own = maxmargin.LinearSVC(tol=1e-4, loss="hinge")
    for part in (BINARY, BINARY):
        own.partial_fit(X, part, classes=[-1, 1])
    return 1.0, own.decision_function(ROWS)


def written(make, folder):
    """A data set on disk."""
    X = make(ROWS, folder)
    data.write(folder / "set", [(X, BINARY)])
    own = maxmargin.LinearSVC(tol=1e-4, loss="hinge").fit(data.open(folder / "set"))
    return own.objective_, own.decision_function(ROWS)


def stacked(make, folder):
    """All sequences in one matrix."""
    X, lengths = make(ROWS, folder), [4] * 6
    own = maxmargin.SequenceTagger(**TIGHT).fit(X, TAGS, lengths=lengths)
    own.predict(X, lengths=lengths)
    return own.objective_, np.array(own.predict(ROWS, lengths=lengths))


def sentences(make, folder):
    """A data set of sequences on disk, from an iterator."""
    X = [make(ROWS[own], folder) for own in FOURS]
    data.write_sequences(folder / "set", iter(X), iter(TAGS))
    own = maxmargin.SequenceTagger(**TIGHT).fit(data.open(folder / "set"))
    return own.objective_, np.concatenate(own.predict([ROWS[part] for part in FOURS]))


def parts(estimator, y, inputs=lambda x: x):
    """A fit to a list of matrices."""

    def run(make, folder):
        X = [make(ROWS[own], folder) for own in FOURS]
        own = clone(estimator).fit([inputs(x) for x in X], y)
        own.predict([inputs(x) for x in X])
        own.score([inputs(x) for x in X], y)
        answers = own.predict([inputs(ROWS[part].copy()) for part in FOURS])
        return own.objective_, np.concatenate([np.ravel(answer) for answer in answers])

    return run


EDGES = [[0, 1], [1, 2], [2, 3]]
TAGS = [THREE[own].tolist() for own in FOURS]
CHOICES = [int(TARGET[own].argmax()) for own in FOURS]
TIGHT = {"tol": 1e-4}
MODELS = {
    "LinearSVC": plain(maxmargin.LinearSVC(**TIGHT, loss="hinge"), BINARY),
    "LinearSVC 3": plain(maxmargin.LinearSVC(**TIGHT, multi_class="crammer_singer"), THREE),
    "LinearSVC smooth": plain(maxmargin.LogisticRegression(**TIGHT), THREE),
    "LinearSVCCV": plain(maxmargin.LinearSVCCV(Cs=[0.1], cv=2, **TIGHT, loss="hinge"), BINARY),
    "LinearSVR": plain(maxmargin.LinearSVR(**TIGHT), TARGET),
    "MeasureSVC": plain(maxmargin.MeasureSVC("f1", **TIGHT), BINARY),
    "RankSVM": plain(maxmargin.RankSVM(**TIGHT), THREE, QUERIES),
    "KernelSVC": plain(maxmargin.KernelSVC(**TIGHT), THREE),
    "KernelSVC linear": plain(maxmargin.KernelSVC(kernel="linear", **TIGHT), BINARY),
    "KernelSVC joint": plain(
        maxmargin.KernelSVC(method=EmpiricalMap(), multi_class="crammer_singer", **TIGHT), THREE
    ),
    "KernelSVC nystrom": plain(maxmargin.KernelSVC(method="nystrom", **TIGHT), BINARY),
    "KernelSVR": plain(maxmargin.KernelSVR(**TIGHT), TARGET),
    "OneClassSVM": plain(maxmargin.OneClassSVM(kernel="linear", nu=0.5, **TIGHT), None),
    "OneClassSVM rbf": plain(maxmargin.OneClassSVM(nu=0.5, **TIGHT), None),
    "OrdinalSVC": plain(maxmargin.OrdinalSVC(**TIGHT), THREE),
    "partial_fit": streamed,
    "data set": written,
    "data set of sequences": sentences,
    "kernel values": given,
    "SequenceTagger stacked": stacked,
    "SequenceTagger": parts(maxmargin.SequenceTagger(**TIGHT), TAGS),
    "SequenceTagger kernel": parts(maxmargin.SequenceTagger(kernel="rbf"), TAGS),
    "GraphLabeler": parts(maxmargin.GraphLabeler(), TAGS, lambda x: tasks.Graph(x, EDGES)),
    "StructuredSVM": parts(maxmargin.StructuredSVM(tasks.Enumerable(), **TIGHT), CHOICES),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", MODELS)
def test_inputs_stay_and_the_model_is_the_same(model, tmp_path):
    first = None
    for name, make in FORMS.items():
        (tmp_path / name).mkdir()
        made = []

        def watched(rows, folder, make=make, made=made):
            X = make(rows, folder)
            made.append((X, arrays(X), bytes_of(X)))
            return X

        objective, scores = MODELS[model](watched, tmp_path / name)
        for X, own, before in made:
            assert all(a is b for a, b in zip(arrays(X), own, strict=True)), name
            assert bytes_of(X) == before, name
        first = first or (objective, scores)
        assert objective == pytest.approx(first[0], rel=2e-2 if "Graph" in model else 2e-4), name
        np.testing.assert_allclose(scores, first[1], atol=5e-2, err_msg=name)
