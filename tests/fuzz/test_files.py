"""A few hundred malformed files with a fixed seed: each is refused in the library's own words, or is valid.

The full counts are run by hand; see :mod:`tests.fuzz.files`.
"""

from __future__ import annotations

import pytest
from tests.fuzz import files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("good")
    files.make_corpus(out)
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"), [("models", 400), ("manifests", 150), ("checkpoints", 150)]
)
def test_malformed_files(folder, kind, count):
    summary = files.run(folder, kind, 0, list(range(count)))
    assert summary.files == count
    assert not summary.findings
    assert len(summary.names) >= 0.8 * len(files.corpus_of(folder, kind))  # all sorts of files
    assert summary.loaded > 0.02 * count  # damage that reaches far
    assert summary.refused > 0.4 * count
