"""A linear model, as the text formats of other programs can hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from maxmargin.command_line.errors import CommandError

Array = npt.NDArray[np.float64]
Kind = Literal["classes", "regression", "ranking"]

#: estimators whose scores are linear, by what they predict
KINDS: dict[str, Kind] = {
    "LinearSVC": "classes",
    "MeasureSVC": "classes",
    "LinearSVR": "regression",
    "RankSVM": "ranking",
}


@dataclass(frozen=True, slots=True)
class LinearModel:
    """Scores ``X @ coef.T + intercept``.

    For two classes there is one row, which is positive for the second of ``classes`` (sorted). ``solver`` is
    the name of LIBLINEAR's solver, where it is known.
    """

    kind: Kind
    coef: Array
    intercept: Array
    classes: list[int] | None = None
    solver: str | None = None

    @classmethod
    def of(cls, estimator: Any) -> LinearModel:
        """The linear model of a fitted estimator."""
        name = type(estimator).__name__
        if name not in KINDS:
            raise CommandError(
                f"a {name} has no linear scores: only {', '.join(KINDS)} can be written in this format."
            )
        kind = KINDS[name]
        coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
        intercept = np.asarray(getattr(estimator, "intercept_", np.zeros(1)), dtype=np.float64)
        classes = _whole(estimator.classes_) if kind == "classes" else None
        return cls(kind, coef, np.atleast_1d(intercept), classes, _solver(estimator))

    def estimator(self) -> Any:
        """An estimator of maxmargin that predicts as the model does, without a certificate."""
        from maxmargin import LinearSVC, LinearSVR

        fit_intercept = bool(self.intercept.any())
        loss = "squared_hinge" if "L2LOSS" in (self.solver or "") else "hinge"
        estimator: Any
        if self.kind == "classes":
            many = self.coef.shape[0] > 1
            multi = "ovr" if many and self.solver != "MCSVM_CS" else "auto"
            estimator = LinearSVC(loss=loss, fit_intercept=fit_intercept, multi_class=multi)
            estimator.classes_ = np.array(self.classes)
            estimator.coef_, estimator.intercept_ = self.coef.copy(), self.intercept.copy()
        else:
            estimator = LinearSVR(fit_intercept=fit_intercept)
            estimator.coef_, estimator.intercept_ = self.coef[0].copy(), self.intercept.copy()
        estimator.n_features_in_ = int(self.coef.shape[1])
        # nothing is known about the optimum of the problem that the other program solved
        estimator.objective_, estimator.lower_bound_ = float("nan"), -float("inf")
        estimator.gap_, estimator.converged_ = float("inf"), False
        estimator.stop_reason_, estimator.certificate_ = "partial", "measured"
        estimator.n_iter_, estimator.history_ = 0, []
        return estimator


def _whole(classes: Any) -> list[int]:
    values = np.asarray(classes)
    if values.dtype.kind not in "iufb" or (values != np.rint(values.astype(np.float64))).any():
        raise CommandError(
            f"labels must be whole numbers in this format; the model has {values[:5].tolist()}."
        )
    return [int(value) for value in values]


def _solver(estimator: Any) -> str:
    """LIBLINEAR's name of the problem; it has none for other measures, whose models predict the same way."""
    name, loss = type(estimator).__name__, getattr(estimator, "loss", "hinge")
    if name in ("LinearSVR", "RankSVM"):
        return "L2R_L2LOSS_SVR_DUAL" if str(loss).startswith("squared") else "L2R_L1LOSS_SVR_DUAL"
    if len(estimator.classes_) > 2 and loss == "hinge" and estimator.multi_class != "ovr":
        return "MCSVM_CS"
    return "L2R_L2LOSS_SVC_DUAL" if loss == "squared_hinge" else "L2R_L1LOSS_SVC_DUAL"
