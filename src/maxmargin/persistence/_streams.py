"""What ``partial_fit`` keeps, in a model file: support vectors, and one plane for all others.

Of structured examples, only the plane is stored, into which all of them are merged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.stored_values import count, floats, integers, number
from maxmargin.data.design import as_design, as_matrix
from maxmargin.duals.loaded_rows import LoadedRows
from maxmargin.duals.one_pass import SupportStream
from maxmargin.duals.rows import Rows
from maxmargin.files.codec import FormatError
from maxmargin.losses import ScoreLoss
from maxmargin.persistence._fields import section
from maxmargin.risks.structured.stream import SetStream

_FLOATS = (
    "C", "intercept", "offset", "bend", "limit", "demands", "plane_size", "weight_seen", "_slack", "_credit",
)  # fmt: skip
_COUNTS = ("max_support", "n_folded", "n_seen")

_SET_FLOATS = ("C", "offset", "limit", "size", "weight_seen")
_SET_COUNTS = ("max_support", "n_seen")


def stream_values(stream: SupportStream) -> dict[str, Any]:
    """A stream as plain values and arrays."""
    out: dict[str, Any] = {name: float(getattr(stream, name)) for name in _FLOATS}
    out |= {name: int(getattr(stream, name)) for name in _COUNTS}
    out |= {"loss": stream.loss, "plane": stream.plane}
    held = stream.held
    if held is None:
        return out | {"rows": None}
    rows = {
        "X": as_matrix(held.design),
        "y": np.asarray(held.rows.y),
        "weight": np.asarray(held.rows.weight),
    }
    return out | {"rows": {**rows, "index": np.asarray(held.index), "alpha": stream.alpha}}


def make_stream(content: object) -> SupportStream:
    """The stream, with its shapes and types checked: compiled code will use these rows as they are."""
    named = section(content, "a stream", (*_FLOATS, *_COUNTS, "loss", "plane", "rows"))
    for name in _FLOATS:
        named[name] = number(named[name], f"{name} of a stream", finite=False)
    for name in _COUNTS:
        count(named[name], f"{name} of a stream")
    loss, plane, C, intercept = (named.pop(name) for name in ("loss", "plane", "C", "intercept"))
    if not isinstance(loss, ScoreLoss) or loss.dual_terms(np.ones(1)) is None:
        raise FormatError("the loss of a stream has no dual form for single rows")
    columns = loss.n_outputs()
    plane = floats(plane, "the plane of a stream", (None,) if columns is None else (None, columns))
    d = len(plane) - int(intercept != 0.0)
    stream = SupportStream(loss, d, C, intercept, max(1, named.pop("max_support")))
    stream.plane = plane
    rows = named.pop("rows")
    for name, value in named.items():
        setattr(stream, name, value)
    if rows is not None:
        names = ("X", "y", "weight", "index", "alpha")
        _take_rows(stream, **section(rows, "the rows of a stream", names))
    stream.dual_value()
    return stream


def _take_rows(stream: SupportStream, X: Any, y: Any, weight: Any, index: Any, alpha: Any) -> None:
    weight = floats(weight, "the weights of a stream's samples", (None,))
    n = len(weight)
    integers(index, "the numbers of a stream's samples", (n,), least=-(2**62))
    alpha = floats(alpha, "the multipliers of a stream", (n, *stream.alpha.shape[1:]))
    if not isinstance(y, np.ndarray) or y.dtype not in (np.int64, np.float64) or y.shape != (n,):
        raise FormatError("the labels of a stream are not an array of numbers of their kind")
    stream.loss.check_labels(y)
    if not (sp.issparse(X) or isinstance(X, np.ndarray)) or X.shape != (n, stream.n_features):
        raise FormatError("the samples of a stream are not a matrix of its features")
    design = as_design(X)  # of the types that were compiled, and without two entries at one place
    rows = Rows(design, y, weight, stream.loss, stream.intercept, ((0, n),))
    stream.held, stream.alpha = LoadedRows(index, rows), alpha


def set_stream_values(stream: SetStream) -> dict[str, Any]:
    """A stream of structured examples as plain values and one array. Its average is the model's weights."""
    merged = stream.merged()
    out: dict[str, Any] = {name: float(getattr(merged, name)) for name in _SET_FLOATS}
    out |= {name: int(getattr(merged, name)) for name in _SET_COUNTS}
    return out | {"rescaling": merged.rescaling, "base": merged.w}


def make_set_stream(content: object) -> SetStream:
    """The stream, with its types checked."""
    names = (*_SET_FLOATS, *_SET_COUNTS, "rescaling", "base")
    named = section(content, "a stream of examples", names)
    for name in _SET_FLOATS:
        named[name] = number(named[name], f"{name} of a stream", finite=False)
    for name in _SET_COUNTS:
        count(named[name], f"{name} of a stream")
    if named["rescaling"] not in ("margin", "slack"):
        raise FormatError("the rescaling of a stream is unknown")
    named["base"] = floats(named["base"], "the plane of a stream", (None,)).copy()
    stream = SetStream(len(named["base"]), named["C"], named["max_support"])
    stream.__dict__.update(named)
    stream.dual_value()
    return stream
