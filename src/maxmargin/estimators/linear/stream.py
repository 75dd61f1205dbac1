"""``partial_fit`` and ``verify``: learning from a stream in which every sample is seen once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.matrices import check_dense, check_rows, is_finite
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import IterationRecord, relative_gap
from maxmargin.core.stopping import Bounds
from maxmargin.core.vectors import Array
from maxmargin.data.dataset import Dataset
from maxmargin.data.design import CSRDesign, DenseDesign, Design, is_design
from maxmargin.duals.one_pass import SupportStream
from maxmargin.estimators.base import CertifiedEstimator, _as_dict, _seed, stopping_rule
from maxmargin.estimators.linear.problem import LinearModel
from maxmargin.estimators.parameters import AvailableIf, check_parameters
from maxmargin.estimators.weights import given_weight_parameters
from maxmargin.risks import ScoreRisk

#: number of rows that are loaded at a time; number of history records that are kept
BLOCK, RECORDS = 2**16, 1000


@dataclass(frozen=True, slots=True, eq=False)
class StreamBatch:
    """Samples of a stream, and their problems."""

    design: Design
    model: LinearModel

    def parts(self) -> Iterator[tuple[DenseDesign | CSRDesign, int, int]]:
        """The samples in memory, one range at a time."""
        n = self.design.shape[0]
        for lo in range(0, n, BLOCK):
            hi = min(n, lo + BLOCK)
            if not hasattr(self.design, "block"):
                raise TypeError(
                    f"{type(self.design).__name__} has no block() method: partial_fit requires block(lo, hi)."
                )
            rows = self.design.block(lo, hi)
            if not isinstance(self.design, DenseDesign | CSRDesign | Dataset):  # validated before
                _check_block(rows, lo)
            yield rows, lo, hi

    def parts_or_whole(self) -> Iterator[tuple[Design, int, int]]:
        """The same, or the design itself if products with it are all that it offers."""
        if hasattr(self.design, "block"):
            yield from self.parts()
        else:
            yield self.design, 0, self.design.shape[0]


class PartialFit(CertifiedEstimator):
    """Adds ``verify`` and the base of ``partial_fit`` to an estimator that defines ``_batch``."""

    max_support: int

    def _batch(self, X: Any, y: Any, sample_weight: Any = None, *, first: bool) -> StreamBatch:
        raise NotImplementedError

    def _learn(self, batch: StreamBatch) -> Self:
        """Learn from the samples of a batch once."""
        streams, model = self._open(batch), batch.model
        number = getattr(self, "n_iter_", 0) if hasattr(self, "_streams") else 0
        rng = np.random.default_rng([_seed(self.random_state), number])
        try:
            for rows, lo, hi in batch.parts():
                for k, stream in enumerate(streams):
                    weight = np.asarray(model.sample_weights[k][lo:hi], dtype=np.float64)
                    stream.feed(rows, np.asarray(model.targets[k][lo:hi]), weight, rng)
        finally:  # after Ctrl-C, the weights match the dual variables again
            lower = [stream.dual_value() for stream in streams]
        self._streams = streams
        self.__dict__.pop("_proof", None)
        self.__dict__.update(model.attributes([stream.w.copy() for stream in streams]))
        self.n_iter_ = number + 1
        self.n_seen_ = streams[0].n_seen
        self.n_support_ = sum(stream.n_support for stream in streams)
        self._store_certificate(lower, [float("inf")] * len(lower))
        history = [] if number == 0 else self.history_
        history.append(_as_dict(_record(self.n_iter_, self.lower_bound_, self.n_support_, self.C)))
        self.history_ = history[-RECORDS:]
        return self

    def _open(self, batch: StreamBatch) -> list[SupportStream]:
        """The current streams, or new ones."""
        model = batch.model
        if model.loss.dual_terms(np.asarray(model.targets[0][:1])) is None:
            raise TypeError(
                f"partial_fit keeps one dual variable per sample, but the loss {type(model.loss).__name__} "
                "does not define them: implement dual_terms(y), or use fit."
            )
        d = batch.design.shape[1]
        streams: list[SupportStream] | None = getattr(self, "_streams", None)
        if streams is None:
            new = (d, float(self.C), model.intercept, int(self.max_support))
            return [SupportStream(model.loss_of(k), *new) for k in range(len(model.targets))]
        self._check_same(streams, model)
        for stream in streams:
            stream.max_support = int(self.max_support)
            if stream.C != self.C:
                stream.rescale(float(self.C))
        return streams

    def _check_same(self, streams: list[SupportStream], model: LinearModel) -> None:
        known = streams[0]
        same = (
            len(streams) == len(model.targets)
            and known.intercept == model.intercept
            and type(known.loss) is type(model.loss)
            and all(
                np.array_equal(value, getattr(model.loss_of(k), name))
                for k, stream in enumerate(streams)
                for name, value in vars(stream.loss).items()
            )
        )
        if not same:
            raise ValueError(
                "the loss, the intercept or multi_class changed in the middle of a stream, so the bounds "
                "would belong to no problem. Start a new stream with a clone."
            )

    def _store_certificate(self, lower: list[float], upper: list[float]) -> None:
        """Store the certificate of all problems together."""
        known = bool(np.isfinite(upper).all())
        rule = stopping_rule(self.tol)
        self.lower_bound_, self.objective_ = float(sum(lower)), float(sum(upper))
        self.gap_ = relative_gap(self.objective_, self.lower_bound_)
        bounds = zip(upper, lower, strict=True)
        self.converged_ = known and all(rule.met(Bounds(u, b, self.C)) for u, b in bounds)
        self.stop_reason_ = "gap" if self.converged_ else "partial"
        self.certificate_ = "exact" if known else "lower_only"

    def verify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Complete the certificate of a stream by one exact pass over its samples.

        Nothing is learned. Afterwards ``objective_`` is the objective over all samples, and
        ``certificate_`` is "exact". The caller is responsible for passing the same samples; only their
        number and their total weight are compared.

        Parameters
        ----------
        X : array, sparse matrix, matrix-free features, data set or iterable of batches
            All samples that ``partial_fit`` has seen, in any order. An iterable yields ``(X, y)`` or
            ``(X, y, sample_weight)``.
        y : array, optional
            Targets, if ``X`` is not an iterable of batches or a data set.
        sample_weight : array, optional
            Per-sample multipliers of C.

        Returns
        -------
        object
            The estimator.

        Raises
        ------
        ValueError
            The number or the total weight of the samples is not that of the stream. The certificate does
            not change.
        """
        check_is_fitted(self, "_streams", msg="verify follows partial_fit, but there was none.")
        streams: list[SupportStream] = self._streams
        if streams[0].C != self.C:
            raise ValueError(
                f"C={self.C!r}, but the stream was learned with C={streams[0].C!r}: set it back, or continue "
                "with partial_fit."
            )
        lower = [stream.dual_value() for stream in streams]
        norms = [SquaredNorm().value(stream.w) for stream in streams]
        losses, count, total = np.zeros(len(streams)), 0, 0.0
        for batch in self._batches(X, y, sample_weight):
            for rows, lo, hi in batch.parts_or_whole():
                count += hi - lo
                for k, stream in enumerate(streams):
                    weight = np.asarray(batch.model.sample_weights[k][lo:hi], dtype=np.float64)
                    total += float(weight.sum()) if k == 0 else 0.0
                    target = batch.model.targets[k]
                    part = _risk(stream, rows, np.asarray(target[lo:hi]), weight)
                    share = (hi - lo) / max(1, stream.n_seen)
                    loss = float(part.evaluate(stream.w).upper)
                    losses[k] += part.raised(stream.w, loss, share * norms[k] / stream.C)
        if not is_finite(losses):
            raise ValueError("a score is NaN or infinite: check the features and scale them.")
        seen = streams[0]
        if count != seen.n_seen or abs(total - seen.weight_seen) > 1e-9 * seen.weight_seen:
            raise ValueError(
                f"these are {count} rows of total weight {total:.12g}, but partial_fit saw {seen.n_seen} of "
                f"weight {seen.weight_seen:.12g}. Pass the samples of the stream."
            )
        upper = [norm + seen.C * float(loss) for norm, loss in zip(norms, losses, strict=True)]
        for b, u in zip(lower, upper, strict=True):
            if b > u + 1e-9 * abs(u) + 1e-300:
                raise ValueError(
                    f"the objective over these rows is {u:.12g}, below the lower bound {b:.12g}: these are "
                    "not the rows seen by partial_fit. Pass the samples of the stream."
                )
        # bounds may be equal up to rounding
        self._store_certificate([min(b, u) for b, u in zip(lower, upper, strict=True)], upper)
        return self

    def _batches(self, X: Any, y: Any, sample_weight: Any) -> Iterator[StreamBatch]:
        if y is not None or is_design(X) or hasattr(X, "shape") or not isinstance(X, Iterable):
            yield self._batch(X, y, sample_weight, first=False)
            return
        for item in X:
            if not isinstance(item, tuple) or len(item) not in (2, 3):
                raise ValueError("batches must be tuples (X, y) or (X, y, sample_weight).")
            yield self._batch(*item, first=False)


def _no_stream(estimator: Any) -> str:
    """What to do if a stream has no lower bound, because some weight is not penalized or for the loss."""
    if estimator.fit_intercept and not estimator.penalize_intercept:
        return (
            "partial_fit requires a penalized intercept: set penalize_intercept=True, or use fit."
        )
    if isinstance(estimator.loss, str) and estimator.loss == "logistic":
        return (
            "partial_fit keeps dual variables of single samples, which loss='logistic' does not offer: use "
            "fit, or another loss."
        )
    return ""


if_streamable = AvailableIf.decorator(_no_stream)


def check_streamable(estimator: Any) -> None:
    """Raise ValueError for parameters that nothing or no stream supports."""
    check_parameters(estimator)
    asked = given_weight_parameters(estimator)
    if asked:
        raise ValueError(f"partial_fit does not support {asked[0]}=: use fit.")


def _check_block(rows: DenseDesign | CSRDesign, first: int) -> None:
    """Raise ValueError if rows from a user's matrix-free features are malformed."""

    def row(i: int) -> str:
        return f"row {first + i}"

    if isinstance(rows, DenseDesign):
        check_dense(rows.X, row=row)
    else:
        check_rows(rows.indptr, rows.indices, rows.data, rows.shape, row=row)


def _risk(stream: SupportStream, rows: Design, y: Any, weight: Array) -> ScoreRisk:
    """The risk of some samples, whose value accounts for rounding."""
    return ScoreRisk(rows, y, stream.loss, sample_weight=weight, intercept=stream.intercept)


def _record(number: int, lower: float, n_support: int, C: float) -> IterationRecord:
    inf = float("inf")
    return IterationRecord(
        number, inf, lower, inf, n_support, n_support, None, float(number), 0.0, 0.0, 0.0, 0.0, 0.0,
        "partial", float(C),
    )  # fmt: skip
