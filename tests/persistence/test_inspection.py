"""The picture of a fit shows what the fit's record says."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from maxmargin import LinearSVC, SequenceTagger, load
from maxmargin.inspection import ConvergenceDisplay
from maxmargin.solvers import AbsoluteGap, RelativeGap

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def svc():
    return LinearSVC(loss="hinge").fit(X, Y)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("x", "label"),
    [
        ("iteration", "iteration"),
        ("elapsed", "seconds"),
        ("oracle_calls", "passes over the data"),
    ],
)
def test_curves_are_the_history(svc, x, label):
    display = ConvergenceDisplay.from_estimator(svc, x=x)
    assert display.gap_ax_.get_xlabel() == label
    for line, name in (
        (display.objective_line_, "objective"),
        (display.lower_bound_line_, "lower_bound"),
        (display.gap_line_, "gap"),
    ):
        np.testing.assert_array_equal(line.get_xdata(), [r[x] for r in svc.history_])
        values = np.array([r[name] for r in svc.history_][:-1])
        values[~np.isfinite(values)] = np.nan  # no upper bound yet: nothing to draw
        np.testing.assert_allclose(line.get_ydata()[:-1], values)
        np.testing.assert_allclose(line.get_ydata()[-1], getattr(svc, f"{name}_"))
    assert display.gap_ax_.get_yscale() == "log"
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["objective (upper bound)", "lower bound"]
    assert "LinearSVC" in display.ax_.get_title()
    display.figure_.canvas.draw()


@pytest.mark.parametrize("layout", ["subplots", "constrained", "free"])
def test_given_axes_are_used_and_not_left(svc, layout):
    if layout == "free":
        figure = plt.figure()
        ax = figure.add_axes((0.2, 0.2, 0.5, 0.5))
    else:
        figure, (ax, other) = plt.subplots(
            1, 2, layout="constrained" if layout != "subplots" else None
        )
        other.plot([0, 1])
    figure.canvas.draw()
    room = ax.get_position()
    display = ConvergenceDisplay.from_estimator(svc, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    figure.canvas.draw()
    above, below = ax.get_position(), display.gap_ax_.get_position()
    assert below.y1 < above.y0
    if layout != "constrained":
        assert (below.y0, above.y1) == pytest.approx((room.y0, room.y1))


def test_display_can_be_drawn_again(svc):
    display = ConvergenceDisplay.from_estimator(svc)
    first = display.figure_
    assert display.plot() is display
    assert display.figure_ is not first


def test_points_without_an_upper_bound_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    y = [rng.integers(0, 3, size=8) for _ in range(40)]
    inputs = [np.eye(3)[c] + rng.normal(size=(8, 3)) for c in y]
    est = SequenceTagger(C=0.1, tol=1e-3).fit(inputs, y)
    assert not np.isfinite([r["objective"] for r in est.history_]).all()
    display = ConvergenceDisplay.from_estimator(est, x="oracle_calls")
    display.figure_.savefig(tmp_path / "picture.png")
    shown = display.objective_line_.get_ydata()
    assert np.isnan(shown[0])
    assert shown[-1] == est.objective_


def test_fits_with_little_to_show(tmp_path):
    for est in (
        LinearSVC(max_iter=1, loss="hinge").fit(X, Y),
        LinearSVC(tol=AbsoluteGap(1.0), loss="hinge").fit(X, Y),
        LinearSVC(tol=RelativeGap(0.5), loss="hinge").fit(X, Y),
    ):
        ConvergenceDisplay.from_estimator(est).figure_.savefig(tmp_path / "picture.png")


def test_refusals(svc, tmp_path):
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(LinearSVC(loss="hinge"))
    with pytest.raises(ValueError, match="x='time': use one of 'iteration', 'elapsed'"):
        ConvergenceDisplay.from_estimator(svc, x="time")
    svc.save(tmp_path / "model")
    with pytest.raises(ValueError, match="keeps the certificate but not the history"):
        ConvergenceDisplay.from_estimator(load(tmp_path / "model"))


def test_matplotlib_is_imported_only_to_draw(svc, monkeypatch):
    code = "import sys, maxmargin, maxmargin.inspection; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"maxmargin\[plot\]"):
        ConvergenceDisplay.from_estimator(svc)
