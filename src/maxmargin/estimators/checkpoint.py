"""Checkpoints of the fit of an estimator: writing them, and checking that a checkpoint belongs to a fit.

A checkpoint contains cutting planes and dual variables of the examples of its fit. With other examples,
bounds would be wrong. Therefore it contains a hash of all data that were passed to ``fit``, and the
parameters that define the problem. A data set on disk is identified by its checksums, and not read for
that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.checkpoints import CheckpointError, as_checkpoint
from maxmargin.estimators.warm_start import HOW, fingerprint
from maxmargin.solvers.checkpointing import CheckpointWriter, read_parts

#: parameters that may change between a fit and its continuation; the solver is compared separately
FREE = frozenset(HOW) - {"C"}


class FitCheckpoint:
    """The checkpoints of one fit.

    Parameters
    ----------
    estimator : CertifiedEstimator
        The estimator, with its parameter ``checkpoint``.
    resume_from : path or None
        The checkpoint from which to continue.
    task : Task, optional
        The user's task after ``setup``, which may number features in an order of its own.
    **given
        The arguments of ``fit``, by name.
    """

    def __init__(self, estimator: Any, resume_from: Any, task: Any = None, **given: object) -> None:
        self.recorder: CheckpointWriter | None = None
        self._parts: list[dict[str, Any]] = []
        self._file = resume_from
        checkpoint = getattr(estimator, "checkpoint", None)
        if checkpoint is None and resume_from is None:
            return
        about = {
            "estimator": type(estimator).__name__,
            **_parameters(estimator),
            "task after setup": fingerprint(task),
            **{name: _contents(name, value) for name, value in given.items()},
        }
        if resume_from is not None:
            self._parts = read_parts(resume_from, about)
        if checkpoint is not None:
            self.recorder = CheckpointWriter(as_checkpoint(checkpoint), about, self._parts)

    def expect(self, n_parts: int) -> None:
        """Set the number of problems that the fit solves, one after the other."""
        if len(self._parts) > n_parts:
            raise CheckpointError(
                f"{self._file}: the checkpoint has {len(self._parts)} problems, but this fit has {n_parts}."
            )
        if self.recorder is not None:
            self.recorder.n_parts = n_parts

    def part(self, k: int) -> dict[str, Any] | None:
        """The state of problem k, if the checkpoint contains it."""
        return self._parts[k] if k < len(self._parts) else None


def _parameters(estimator: Any) -> dict[str, Any]:
    """The parameters that define the problem; a hash for those that are not plain values."""
    out: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in FREE:
            continue
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, str | int | None):
            out[name] = value
        elif isinstance(value, float):
            out[name] = float(value) if math.isfinite(value) else repr(value)
        else:  # a task that cannot be hashed is identified by its class
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            out[name] = f"{kind} {fingerprint(_plain(value)) or ''}".strip()
    return out


def _contents(name: str, value: object) -> str | None:
    """A hash of data."""
    if value is None:
        return None
    known = getattr(value, "fingerprint", None)  # of a data set on disk
    found = fingerprint(_plain(value) if known is None else list(known))
    if found is None:
        raise ValueError(
            f"a checkpoint identifies the data of its fit by a hash, but {name}, a "
            f"{type(value).__name__}, cannot be pickled. Pass data that can be pickled, or leave out "
            "checkpoint= and resume_from=."
        )
    return found


def _plain(value: Any) -> Any:
    """The data without the flags that SciPy caches in a matrix when it is used."""
    if sp.issparse(value):
        rows = value.tocsr()
        return ("sparse", rows.shape, rows.data, rows.indices, rows.indptr)
    if isinstance(value, list | tuple) and any(sp.issparse(part) for part in value):
        return [_plain(part) for part in value]
    return value
