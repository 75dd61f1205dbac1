"""Structured models with kernels in files: the same predictions, bit for bit, and damage that is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from tests.persistence.test_damaged_files import joined, parts, refused
from tests.tiny_tasks import TinyChain

from maxmargin import SequenceTagger, StructuredSVM, load
from maxmargin.kernels import Nystrom
from maxmargin.tasks import Chain


def chains(n=12, sparse=False):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(n)]
    return [csr_matrix(x) if sparse else x for x in X], [rng.integers(0, 2, 3) for _ in range(n)]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("method", ["map", Nystrom(8)])
def test_taggers(tmp_path, sparse, method):
    X, Y = chains(sparse=sparse)
    tagger = SequenceTagger(kernel="poly", coef0=1.0, kernel_method=method).fit(X, Y)
    tagger.save(tmp_path / "tagger")
    again = load(tmp_path / "tagger")
    assert again.predict(X) == tagger.predict(X)
    for a, b in zip(again.max_marginals(X), tagger.max_marginals(X), strict=True):
        assert np.array_equal(a, b)
    assert again.kernel_method == tagger.kernel_method
    assert again.kernel_method_ == tagger.kernel_method_
    assert again.certificate_ == tagger.certificate_
    assert getattr(again, "restricted_gap_", None) == getattr(tagger, "restricted_gap_", None)
    assert again.fit(X, Y).objective_ == tagger.objective_


@pytest.mark.parametrize("method", ["map", Nystrom(8)])
def test_structured_models(tmp_path, method):
    X, Y = chains()
    svm = StructuredSVM(Chain(2), kernel="rbf", kernel_method=method).fit(X, Y)
    svm.save(tmp_path / "svm")
    basis = svm.kernel_features_.n_features
    again = load(tmp_path / "svm", task=Chain(2, n_features=basis))
    assert all(map(np.array_equal, again.predict(X), svm.predict(X)))
    plain = StructuredSVM(TinyChain(), kernel="rbf", kernel_method=method)
    plain.fit(X, [tuple(y) for y in Y]).save(tmp_path / "plain")
    assert load(tmp_path / "plain", task=plain.task_).predict(X) == plain.predict(X)


def test_functions_are_refused(tmp_path):
    X, Y = chains()
    tagger = SequenceTagger(kernel=lambda A, B: A @ B.T).fit(X, Y)
    with pytest.raises(ValueError, match="a model file holds no code"):
        tagger.save(tmp_path / "tagger")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda fitted, basis: basis.update(rows=None),
        lambda fitted, basis: basis.update(kernel="rbf"),
        lambda fitted, basis: basis.update(factor=basis["rows"]),
        lambda fitted, basis: basis["kernel"]["$object"].update({"class": "Callable"}),
        lambda fitted, basis: basis["kernel"]["$object"].update(gamma={"$float": "inf"}),
        lambda fitted, basis: basis["rows"].update({"$array": ["basis.rows", "<f8", [3, 2]]}),
        lambda fitted, basis: fitted.update(basis=3),
        lambda fitted, basis: fitted.update(n_features_in_=5),
        lambda fitted, basis: fitted.update(coef_=1.0),
        lambda fitted, basis: fitted.update(restricted_gap_="small"),
        lambda fitted, basis: fitted.pop("basis"),
    ],
)
def test_damage_is_found(tmp_path, spoil):
    X, Y = chains()
    path = tmp_path / "tagger"
    SequenceTagger(kernel="rbf", kernel_method=Nystrom(8)).fit(X, Y).save(path)
    header, tensors = parts(path.read_bytes())
    spoil(header["fitted"], header["fitted"]["basis"]["$object"])
    refused(path, joined(header, tensors))
