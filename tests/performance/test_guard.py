"""Some thirty small fits do no more work than recorded: passes, kernel values, Python calls, memory."""

import pytest
from benchmarks import guard

FITS = guard.fits()


@pytest.mark.parametrize("name", list(FITS))
def test_no_more_work_than_recorded(name):
    """If more is intended: python -m benchmarks.guard --record."""
    assert guard.excess(name, guard.count(FITS[name]), guard.recorded()) == []


def test_records_are_those_of_the_fits():
    assert list(guard.recorded()) == list(FITS)


@pytest.mark.parametrize("what", list(guard.ALLOWED))
def test_more_work_is_noticed(what):
    before = guard.recorded()
    for name, counts in before.items():
        assert guard.excess(name, counts, before) == []
        found = guard.excess(name, {**counts, what: 1.5 * counts[what] + 200.0}, before)
        assert len(found) == 1
        assert what in found[0]
    assert guard.excess("a new fit", counts, before) == ["a new fit: not recorded"]
