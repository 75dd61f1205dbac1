"""When a fit stops early: rounding prevents progress, or convergence is too slow."""

import numpy as np
import pytest

from maxmargin.solvers.base import StallDetector


def iterations(gaps, allowed, **options):
    """How many of these gaps a fit with F = 1 sees before it stops."""
    detector = StallDetector(**options)
    for k, gap in enumerate(gaps, 1):
        if detector.stalled(gap, 1.0, allowed):
            return k
    return None


def test_progress_goes_on():
    assert iterations(0.99 ** np.arange(2500), 1e-12) is None


def test_a_gap_that_stands_still_is_given_up_after_the_window():
    assert iterations(np.full(500, 0.1), 1e-3, window=60) == 61
    assert iterations(np.full(500, 0.1), 1e-3, window=30) == 31


def test_a_gap_that_goes_up_and_down_counts_by_its_least():
    gaps = np.where(np.arange(500) % 2, 0.2, 0.1)
    assert iterations(gaps, 1e-3, window=60) == 61


@pytest.mark.parametrize(("times", "given_up"), [(29.0, False), (31.0, True)])
def test_the_end_is_out_of_sight_at_thirty_times_the_patience(times, given_up):
    patience, allowed = 100, 1e-6
    # after the patience, this multiple of it is left
    rate = allowed ** (1.0 / (patience * (times + 1.0)))
    found = iterations(rate ** np.arange(patience + 1), allowed, patience=patience)
    assert found == (patience + 1 if given_up else None)


def test_no_bound_at_all_is_given_up_after_the_patience():
    assert iterations(np.full(500, np.inf), 1e-3, window=300, patience=200) == 201
