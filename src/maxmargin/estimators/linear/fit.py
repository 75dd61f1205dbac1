"""Fits of linear estimators: one problem after the other, with warm starts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.core.engine import Engine
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.stopping import ProvenPredictions
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import Design, compact
from maxmargin.estimators.base import CertifiedEstimator, Solved
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.linear.kept_duals import coefficients, require_duals
from maxmargin.estimators.linear.problem import LinearModel
from maxmargin.estimators.linear.proven import ProvenRounds, prove
from maxmargin.estimators.linear.refit import StoredBundles, bundles_for, grow, keep_planes
from maxmargin.losses import ScoreLoss
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Auto, CuttingPlane

#: methods whose dual variables the next fit can reuse
COORDINATE_METHODS = ("coordinate", "block coordinate", "stream")


class LinearFits(NamedTuple):
    """What the next fit of a path starts from."""

    design: Design
    results: list[SolveResult]


class LinearFit(CertifiedEstimator):
    """Base class of linear estimators."""

    #: names of methods of other libraries that mean "auto"
    _same_as_auto: ClassVar[tuple[str, ...]] = ()

    solver: Any
    keep_duals: bool
    coef_: Array
    dual_coef_: Array
    support_: IntArray
    intercept_: Array

    def _train(
        self,
        model: LinearModel,
        design: Design,
        data: Mapping[str, Any],
        last: LinearFits | None,
        grown: Any = None,
        keeping: FitCheckpoint | None = None,
        rounds: ProvenRounds | None = None,
    ) -> LinearFits:
        """Solve the problems of the model, continuing from ``last``: a fit to the same data with another C.

        ``grown``: a data set that contains all labels and weights, and may be the one of an earlier fit
        with more rows. ``rounds``: those of the rule ProvenPredictions, of which this is not the first.
        """
        for name in ("_streams", "dual_coef_", "support_"):  # of partial_fit, or of the last fit
            self.__dict__.pop(name, None)
        # removed, because they are changed in place and are invalid if this fit fails
        planes = self.__dict__.pop("_planes", None)
        if last is not None:
            design = last.design
        elif not by_columns(model.loss):
            design = compact(design)
        if rounds is None and isinstance(self.tol, ProvenPredictions):
            rounds = ProvenRounds(self)
        results = Solved()
        results.elapsed = 0.0 if rounds is None else rounds.elapsed
        if keeping is not None:
            keeping.expect(len(model.targets))
        with self._workers() as engine:
            for k, target in enumerate(model.targets):
                weights = model.weights[k]
                problem = partial(
                    ScoreRisk,
                    design,
                    target,
                    model.loss_of(k),
                    sample_weight=model.sample_weights[k],
                    intercept=model.intercept,
                )
                risk = weights.risk(problem(engine=engine))
                start: Start | SolveResult | None
                solver = self._automatic(engine) if self._is_automatic else self.solver
                if self.keep_duals:
                    require_duals(risk, weights.norm, solver)
                if model.constant is not None:
                    # it begins with the start, which is optimal
                    start, solver = Start(model.constant), CuttingPlane()
                elif last is None:
                    start = self._start(model, k, risk, problem, grown, planes)
                else:
                    start = last.results[k]
                results.append(
                    self._minimize(
                        risk,
                        solver,
                        regularizer=weights.norm,
                        start=start,
                        fitted=None if len(model.targets) > 1 else lambda w: model.attributes([w]),
                        data=data,
                        after=results,
                        keeping=keeping,
                        stopping=None if rounds is None else rounds.stopping,
                        returned=model.returned,
                    )
                )
            # while the workers of the engine are there
            fitted = model.attributes([r.w for r in results])
            self.__dict__.update(fitted, _proof=prove(model, design, results, self.C, fitted))
        if rounds is not None and rounds.go_on(results.elapsed):
            before = LinearFits(design, results)
            return self._train(model, design, data, before, grown, keeping, rounds)
        if self.keep_duals:
            parts = zip(model.targets, results, model.weights, strict=True)
            kept = [coefficients(model.loss, y, r, self.C, own.norm) for y, r, own in parts]
            self._keep_duals(np.concatenate(kept))
        if self.warm_start:
            self._multipliers = [_multipliers(result) for result in results]
            self._planes = keep_planes(self, grown, results)
        return LinearFits(design, results)

    def _keep_duals(self, coefficients: Array) -> None:
        """Set the attributes of ``keep_duals=True``."""
        self.dual_coef_ = coefficients
        self.support_ = np.flatnonzero(coefficients.any(axis=0))

    @property
    def _is_automatic(self) -> bool:
        """Whether the method is chosen here. (A class may accept other names for that.)"""
        return isinstance(self.solver, str) and self.solver in ("auto", *self._same_as_auto)

    def _automatic(self, engine: Engine) -> Auto:
        """The automatic choice. It depends on whether several threads were asked for, and not on how many
        there are, so that results do not depend on the machine."""
        several = self.engine in (None, "threads") and self.n_jobs not in (None, 1)
        return Auto(several, remote=not engine.durable, rows=self.keep_duals)

    def _start(
        self,
        model: LinearModel,
        k: int,
        risk: Any,
        problem: Any,
        grown: Any,
        planes: StoredBundles | None,
    ) -> Start | None:
        """The weights, planes and dual variables of the previous fit, as far as they match this problem."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        weights = model.flatten(self.coef_, self.intercept_)
        if weights is None:
            return None
        bundles = bundles_for(planes, self, grown)
        if bundles is not None:
            of_rows = lambda ranges: model.weights[k].risk(problem(ranges=ranges))  # noqa: E731
            return Start(weights[k], dual=grow(bundles[k], planes, risk, of_rows, weights[k]))
        kept = getattr(self, "_multipliers", [])
        method, C, alpha = kept[k] if k < len(kept) else ("coordinate", self.C, None)
        norm = model.weights[k].norm
        if alpha is None or method not in risk.methods(norm):
            return Start(weights[k])
        options = (getattr(self.solver, name, None) for name in ("streaming", "layout"))
        duals = risk.row_duals(method, C, norm, *options)
        if alpha.shape != duals.multipliers.shape:  # other rows, or another kind of problem
            return Start(weights[k])
        duals.load(alpha)
        return Start(weights[k], duals={method: duals})


def by_columns(loss: ScoreLoss) -> bool:
    """Whether the method for a loss takes products with many columns: these are fast for dense rows, also of
    zeros."""
    return loss.column_terms() is not None and (loss.n_outputs() or 1) >= 3


def _multipliers(result: SolveResult) -> tuple[str, float, Array | None]:
    """C and the dual variables of the coordinate methods, if one ran; they are feasible for any rows."""
    for method in COORDINATE_METHODS:
        duals = result.duals.get(method)
        if duals is not None:
            return method, duals.C, duals.multipliers.copy()
    return "coordinate", 0.0, None
