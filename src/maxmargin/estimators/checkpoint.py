"""Checkpoints of an estimator's fit: what they are about, who writes them, and where to go on.

A checkpoint holds planes and multipliers of the examples it was made for; with others in their place bounds
would be false. So it carries a hash of everything ``fit`` was given, to the last bit, and the parameters
that say which problem it is. A data set on disk is known by its checksums, and is not read for that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.checkpoints import CheckpointError, as_checkpoint
from maxmargin.estimators.warm_start import HOW, fingerprint
from maxmargin.solvers.checkpointing import CheckpointWriter, read_parts

#: parameters that may change between a fit and its continuation; the solver is compared by itself
FREE = frozenset(HOW) - {"C"}


class FitCheckpoint:
    """The checkpoints of one fit.

    Parameters
    ----------
    estimator : CertifiedEstimator
        With its parameter ``checkpoint``.
    resume_from : path or None
        The checkpoint to go on from.
    task : Task, optional
        The user's task after ``setup``, which may number features in an order of its own.
    **given
        What ``fit`` was given, by name.
    """

    def __init__(self, estimator: Any, resume_from: Any, task: Any = None, **given: Any) -> None:
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
        """The fit is so many problems, one after the other."""
        if len(self._parts) > n_parts:
            raise CheckpointError(
                f"{self._file}: the checkpoint holds {len(self._parts)} problems, the fit is {n_parts}."
            )
        if self.recorder is not None:
            self.recorder.n_parts = n_parts

    def part(self, k: int) -> dict[str, Any] | None:
        """The state of the k-th problem, if the checkpoint has it."""
        return self._parts[k] if k < len(self._parts) else None


def _parameters(estimator: Any) -> dict[str, Any]:
    """The parameters that say which problem it is; those that are not plain, by a hash."""
    out: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in FREE:
            continue
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, str | int | None):
            out[name] = value
        elif isinstance(value, float):
            out[name] = float(value) if math.isfinite(value) else repr(value)
        else:  # a task of which no hash can be taken is known by its class
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            out[name] = f"{kind} {fingerprint(_plain(value)) or ''}".strip()
    return out


def _contents(name: str, value: Any) -> str | None:
    """A hash of data."""
    if value is None:
        return None
    known = getattr(value, "fingerprint", None)  # of a data set on disk
    found = fingerprint(_plain(value) if known is None else list(known))
    if found is None:
        raise ValueError(
            f"a checkpoint must tell the data of its fit from others by a hash, but {name}, a "
            f"{type(value).__name__}, cannot be pickled. Give plain data, or leave checkpoint= and "
            "resume_from= out."
        )
    return found


def _plain(value: Any) -> Any:
    """Without what SciPy notes down about a matrix when it is used."""
    if sp.issparse(value):
        rows = value.tocsr()
        return ("sparse", rows.shape, rows.data, rows.indices, rows.indptr)
    if isinstance(value, list | tuple) and any(sp.issparse(part) for part in value):
        return [_plain(part) for part in value]
    return value
