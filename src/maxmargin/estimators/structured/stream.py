"""``partial_fit`` and ``verify`` of structured estimators: learning from a stream of examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.engine import Engine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import CERTIFICATE_OF, Certificate, relative_gap
from maxmargin.core.stopping import Bounds
from maxmargin.data.dataset import Dataset
from maxmargin.estimators.base import CertifiedEstimator, _as_dict, _seed, stopping_rule
from maxmargin.estimators.linear.stream import RECORDS, _record
from maxmargin.risks.structured.risk import TaskRisk
from maxmargin.risks.structured.stream import SetStream


class StructuredStream(CertifiedEstimator):
    """Adds ``verify`` and the base of ``partial_fit`` to an estimator that defines ``_stream_risk``."""

    max_support: int
    rescaling: str
    _stream: SetStream

    def _stream_risk(self, engine: Engine | None, X: Any, y: Any, *weights: Any) -> TaskRisk:
        """The risk of examples of the stream that ``verify`` has been given."""
        raise NotImplementedError

    def _open(self, dim: int, tail: int = 0) -> SetStream:
        """The stream so far, or a new one. ``tail``: the number of weights that stay the last ones."""
        stream: SetStream | None = getattr(self, "_stream", None)
        if stream is None:
            return SetStream(dim, float(self.C), int(self.max_support), self.rescaling)
        if stream.rescaling != self.rescaling:
            raise ValueError(
                "rescaling changed in the middle of a stream, so the bounds would belong to no problem. "
                "Start a new stream with a clone."
            )
        stream.max_support = int(self.max_support)
        if stream.C != self.C:
            stream.rescale(float(self.C))
        stream.widen(dim, tail)
        return stream

    def _learn(self, stream: SetStream, risk: TaskRisk) -> None:
        """Learn from the examples of a risk."""
        number = self.n_iter_ if hasattr(self, "_stream") else 0
        rng = np.random.default_rng([_seed(self.random_state), number])
        stream.feed(risk.examples, risk.caps(1.0), rng)
        lower = stream.dual_value()
        for name in ("calibration_", "_kept"):  # they belong to other weights
            self.__dict__.pop(name, None)
        self._stream = stream
        self.n_iter_ = number + 1
        self.n_seen_, self.n_support_ = stream.n_seen, stream.n_support
        self._store_bounds(lower, float("inf"), "lower_only")
        history = [] if number == 0 else self.history_
        history.append(_as_dict(_record(self.n_iter_, lower, self.n_support_, self.C)))
        self.history_ = history[-RECORDS:]

    def _store_bounds(self, lower: float, upper: float, kind: Certificate) -> None:
        known = kind != "lower_only" and np.isfinite(upper)
        self.lower_bound_, self.objective_ = float(lower), float(upper)
        self.gap_ = relative_gap(upper, lower) if known else float("inf")
        self.converged_ = bool(known and stopping_rule(self.tol).met(Bounds(upper, lower, self.C)))
        self.stop_reason_ = "gap" if self.converged_ else "partial"
        self.certificate_ = kind

    def _verify(self, X: Any, y: Any, *weights: Any) -> Self:
        check_is_fitted(self, "_stream", msg="verify follows partial_fit, but there was none.")
        stream = self._stream
        if stream.C != self.C:
            raise ValueError(
                f"C={self.C!r}, but the stream was learned with C={stream.C!r}: set it back, or continue "
                "with partial_fit."
            )
        w, risk_upper, count, total = stream.average, 0.0, 0, 0.0
        kind: OracleKind = "exact"
        for batch in _batches(X, y, weights):
            with self._workers() as engine:
                risk = self._stream_risk(engine, *batch)
                risk_upper += risk.evaluate(w).upper
                kind = risk.oracle
            count, total = count + risk.n_examples, total + float(risk.caps(1.0).sum())
        if count != stream.n_seen or abs(total - stream.weight_seen) > 1e-9 * stream.weight_seen:
            raise ValueError(
                f"these are {count} examples of total weight {total:.12g}, but partial_fit saw "
                f"{stream.n_seen} of weight {stream.weight_seen:.12g}. Pass the examples of the stream."
            )
        lower, upper = stream.dual_value(), SquaredNorm().value(w) + stream.C * risk_upper
        if np.isnan(upper):
            raise ValueError("a score is NaN or infinite: check the features and scale them.")
        if lower > upper and kind == "undergenerating":
            upper = lower  # the oracle missed something: F(w) >= F* >= lower holds all the same
        if lower > upper + 1e-9 * abs(upper) + 1e-300:
            raise ValueError(
                f"the objective over these examples is {upper:.12g}, below the lower bound {lower:.12g}: "
                "these are not the examples seen by partial_fit. Pass the examples of the stream."
            )
        # bounds may be equal up to rounding
        self._store_bounds(min(lower, upper), upper, CERTIFICATE_OF[kind])
        return self


def _batches(X: Any, y: Any, weights: tuple[object, ...]) -> Iterator[tuple[Any, ...]]:
    if y is not None or isinstance(X, Dataset) or not isinstance(X, Iterable):
        yield X, y, *weights
        return
    for item in X:
        if not isinstance(item, tuple) or len(item) not in (2, 3):
            raise ValueError("batches must be tuples (X, y) or (X, y, sample_weight).")
        yield item


def check_streamable(estimator: Any, unsupported: dict[str, bool]) -> None:
    """Raise ValueError for parameters that streams do not support."""
    for name, asked in unsupported.items():
        if asked:
            raise ValueError(
                f"partial_fit does not support {name}={getattr(estimator, name)!r}: use fit."
            )
