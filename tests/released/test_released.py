"""Model files of all releases can be read, and their models say what they said at that time."""

from __future__ import annotations

import json
import typing
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.released.cases import CASES, DATASETS, TASKS, answers, as_inputs

import maxmargin
from maxmargin.persistence import SavedEstimator

FILES = sorted(Path(__file__).parent.glob("*/*.safetensors"))
#: values that are compared up to rounding, which may differ between processors
ROUNDED = ("decision_function", "max_marginals", "predict_confidence", "objective_", "lower_bound_")


def read(path: Path) -> typing.Any:
    task = TASKS[path.stem]() if path.stem in TASKS else None
    return maxmargin.load(path, task=task)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_of_releases(path):
    stored = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    found = answers(read(path), as_inputs(path.stem, stored.pop("inputs")))
    assert set(found) == set(stored)
    for name, value in stored.items():
        rounded = name in ROUNDED or (
            name == "predictions" and path.stem in ("linear_svr", "rank_svm")
        )
        if rounded:
            np.testing.assert_allclose(
                np.array(found[name], float).ravel(),
                np.array(value, float).ravel(),
                rtol=1e-9,
                atol=1e-9,
            )
        else:
            assert found[name] == value, name


def test_every_estimator_has_a_case():
    # the next release writes files of all cases
    fitted = {name for case in CASES.values() for name in case.fit.__code__.co_names}
    assert {cls.__name__ for cls in typing.get_args(SavedEstimator)} <= fitted


def test_the_first_release_has_files_of_all_estimators():
    first = [path for path in FILES if path.parent.name == "0.1.0"]
    assert {type(read(path)) for path in first} == set(typing.get_args(SavedEstimator))


@pytest.mark.parametrize("name", DATASETS)
def test_data_sets_of_the_first_release(name):
    data = maxmargin.data.open(Path(__file__).parent / "0.1.0" / name)
    data.verify()
    for found, given in zip(data.load(), DATASETS[name], strict=False):
        if sp.issparse(given):
            found, given = found.toarray(), given.toarray()
        np.testing.assert_array_equal(found, given)
        assert np.asarray(found).dtype == given.dtype
