"""A few hundred malformed files with a fixed seed: each is refused with the library's own error, or is valid.

They run in this process, without limits; ``python -m fuzz.files`` runs thousands in child processes.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.nightly import first

from fuzz import files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("good")
    files.make_corpus(out)
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"),
    first(
        3,
        [
            ("models", 60),
            ("manifests", 40),
            ("checkpoints", 40),
            ("models", 400),
            ("manifests", 150),
            ("checkpoints", 150),
        ],
    ),
)
def test_malformed_files(folder, kind, count, tmp_path):
    for good in files.corpus_of(folder, kind):
        assert files.used(kind, good, good.name) == ("loaded", "")
    verdicts: Counter[str] = Counter()
    for number in range(count):
        target = tmp_path / str(number)
        name = files.damaged(folder, kind, 0, number, target)
        verdict, text = files.used(kind, target, name)
        assert verdict != "finding", f"{kind}:{number} ({name}): {text}"
        verdicts[verdict] += 1
    assert verdicts["loaded"] > 0.02 * count  # damage that reaches far
    assert verdicts["refused"] > 0.4 * count
