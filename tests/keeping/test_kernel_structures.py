"""Structured models with kernels in files: the same predictions, bit for bit, and damage that is found."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_matrix
from tests.referees.tiny_tasks import TinyChain

from maxmargin import SequenceTagger, StructuredSVM, load
from maxmargin.kernels import Nystrom
from maxmargin.persistence import ModelFileError
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
        lambda kernel: kernel.update(n_rows=3),
        lambda kernel: kernel.update(n_columns=5),
        lambda kernel: kernel.update(sparse="no"),
        lambda kernel: kernel.update(factor=True),
        lambda kernel: kernel["kernel"].update(name="Callable"),
        lambda kernel: kernel["said"].update(coef_=1.0),
        lambda kernel: kernel["said"].update(restricted_gap_="small"),
        lambda kernel: kernel.pop("said"),
    ],
)
def test_damage_is_found(tmp_path, spoil):
    X, Y = chains()
    path = tmp_path / "tagger"
    SequenceTagger(kernel="rbf", kernel_method=Nystrom(8)).fit(X, Y).save(path)
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["maxmargin"])
    spoil(header["fitted"]["kernel"])
    save_file(load_file(path), path, metadata={"maxmargin": json.dumps(header)})
    with pytest.raises(ModelFileError):
        load(path)
