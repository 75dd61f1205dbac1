"""How many functions of the library a small fit calls: what can be checked or built once per fit is."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fuzz.structured_tasks import Lookup

import maxmargin
from maxmargin import KernelSVC, LinearSVC, SequenceTagger, StructuredSVM

HERE = str(Path(maxmargin.__file__).parent)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 10))
Y = (X[:, 0] > 0).astype(int)
SETS = [RNG.normal(size=(6, 4)) for _ in range(40)]
CHOICES = [(k := int(np.argmax(x[:, 0])), tuple(float(j != k) for j in range(6))) for x in SETS]
NAMES = ["ab"[y] for y in Y]
TOKENS = [[{"w": name, "b": 1.0} for name in NAMES[i : i + 5]] for i in range(0, 100, 5)]
TAGS = [NAMES[i : i + 5] for i in range(0, 100, 5)]

#: most calls of a second fit, a few more than there are
FITS = {
    "LinearSVC": (640, lambda: LinearSVC().fit(X, Y)),
    "SequenceTagger": (830, lambda: SequenceTagger().fit(TOKENS, TAGS)),
    "StructuredSVM": (4500, lambda: StructuredSVM(Lookup()).fit(SETS, CHOICES)),
    "KernelSVC": (630, lambda: KernelSVC().fit(X, Y)),
}


def calls(fit):
    """How often each function of the library is called."""
    found = Counter()

    def count(frame, event, _):
        file = frame.f_code.co_filename
        # without precompiled code, Numba reports calls of compiled functions too
        if event == "call" and file.startswith(HERE) and "compiled" not in file[len(HERE) :]:
            found[frame.f_code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        fit()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("name", FITS)
def test_a_fit_makes_few_calls(name):
    most, fit = FITS[name]
    fit()
    found = calls(fit)
    assert found.total() <= most, found.most_common(8)


def test_nothing_is_copied_or_asked_again():
    found = calls(FITS["LinearSVC"][1])
    assert found["SquaredHinge.dual_terms"] <= 8  # 14 when every refusal asked for itself
    found = calls(FITS["StructuredSVM"][1])
    assert found["PlainExamples.eager"] <= 10  # once per shard, and not in every call of it
    assert found["PlainExamples.__setstate__"] <= 10
