"""What ``partial_fit`` keeps, in a model file: support vectors, and one plane for all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.stored_values import count, floats, integers, number
from maxmargin.data.design import CSRDesign, DenseDesign, as_design
from maxmargin.duals.loaded_rows import LoadedRows
from maxmargin.duals.one_pass import SupportStream
from maxmargin.duals.rows import Rows
from maxmargin.duals.terms import into_box
from maxmargin.files.codec import FormatError
from maxmargin.losses import ScoreLoss
from maxmargin.persistence._fields import section

#: numbers of a stream, and the least that each can be
_FLOATS = {
    "C": 0.0, "intercept": -np.inf, "offset": -np.inf, "bend": -np.inf, "limit": 0.0, "demands": 0.0,
    "reach": 0.0, "weight_seen": -np.inf, "_slack": -np.inf, "_credit": -np.inf,
}  # fmt: skip
_COUNTS = ("max_support", "n_folded", "n_seen")
_ROWS = ("X", "y", "weight", "index", "alpha")
#: numbers that may be infinite
_INFINITE = ("limit", "_slack")


def stream_values(stream: SupportStream) -> dict[str, Any]:
    """A stream as plain values and arrays."""
    out: dict[str, Any] = {name: float(getattr(stream, name)) for name in _FLOATS}
    out |= {name: int(getattr(stream, name)) for name in _COUNTS}
    out |= {"loss": stream.loss, "plane": stream.plane}
    held = stream.held
    if held is None:
        return out | {"rows": None}
    design = held.design
    X: Any = design.X if isinstance(design, DenseDesign) else None
    if isinstance(design, CSRDesign):
        X = sp.csr_matrix((design.data, design.indices, design.indptr), design.shape, copy=False)
    rows = {"X": X, "y": np.asarray(held.rows.y), "weight": np.asarray(held.rows.weight)}
    return out | {"rows": {**rows, "index": np.asarray(held.index), "alpha": stream.alpha}}


def make_stream(content: Any) -> SupportStream:
    """The stream, with everything checked: compiled code will use these rows as they are."""
    names = (*_FLOATS, *_COUNTS, "loss", "plane", "rows")
    named = section(content, "a stream", names)
    for name, least in _FLOATS.items():
        finite = name not in _INFINITE
        named[name] = number(named[name], f"{name} of a stream", least, finite=finite)
    for name in _COUNTS:
        count(named[name], f"{name} of a stream")
    loss, plane, C, intercept = (named.pop(name) for name in ("loss", "plane", "C", "intercept"))
    if not isinstance(loss, ScoreLoss) or loss.dual_terms(np.ones(1)) is None:
        raise FormatError("the loss of a stream has no dual form for single rows")
    columns = loss.n_outputs()
    plane = floats(plane, "the plane of a stream", (None,) if columns is None else (None, columns))
    d = len(plane) - int(intercept != 0.0)
    if d < 1 or not C > 0.0:
        raise FormatError("a stream has no features, or C is not positive")
    stream = SupportStream(loss, d, C, intercept, max(1, named.pop("max_support")))
    stream.plane = plane
    rows = named.pop("rows")
    for name, value in named.items():
        setattr(stream, name, value)
    if rows is not None:
        _take_rows(stream, **section(rows, "the rows of a stream", _ROWS))
    stream.dual_value()
    return stream


def _take_rows(stream: SupportStream, X: Any, y: Any, weight: Any, index: Any, alpha: Any) -> None:
    weight = floats(weight, "the weights of a stream's samples", (None,))
    n, loss = len(weight), stream.loss
    integers(index, "the numbers of a stream's samples", (n,), least=-(2**62))
    alpha = floats(alpha, "the multipliers of a stream", (n, *stream.alpha.shape[1:]))
    if not isinstance(y, np.ndarray) or y.dtype not in (np.int64, np.float64) or y.shape != (n,):
        raise FormatError("the labels of a stream are not an array of numbers of their kind")
    loss.check_labels(y)
    if not (weight > 0.0).all():
        raise FormatError("a stream holds samples without a weight")
    if not (sp.issparse(X) or isinstance(X, np.ndarray)) or X.shape != (n, stream.n_features):
        raise FormatError("the samples of a stream are not a matrix of its features")
    design = as_design(X)  # of the types that were compiled, and without two entries at one place
    rows = Rows(design, y, weight, loss, stream.intercept, ((0, n),))
    off = alpha.copy()
    if off.ndim == 2:
        off[np.arange(n), y] = 0.0
    if np.abs(into_box(rows, stream.C, alpha) - off).max(initial=0.0) > 1e-9 * stream.C:
        raise FormatError("a stream holds multipliers that are not feasible")
    stream.held, stream.alpha = LoadedRows(index, rows), alpha
