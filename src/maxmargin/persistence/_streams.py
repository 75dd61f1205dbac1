"""Streams of ``partial_fit`` in a model file: what is kept of the rows, and what became of the others."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.design import CSRDesign, DenseDesign, as_design
from maxmargin.duals.loaded_rows import InMemory, LoadedRows
from maxmargin.duals.one_pass import SupportStream
from maxmargin.duals.rows import Rows
from maxmargin.duals.terms import into_box
from maxmargin.losses import ScoreLoss
from maxmargin.persistence._arrays import ArrayReader, ArrayWriter
from maxmargin.persistence._losses import LOSSES, make_loss, own_loss, plain_params
from maxmargin.persistence._values import ModelFileError, count, decode, encode, section, shown

#: numbers of the plane that folded rows became
_PLANE = ("offset", "bend", "limit", "demands", "reach")
_FLOATS = ("C", "intercept", "epsilon", *_PLANE, "weight_seen", "slack", "credit")
_COUNTS = ("max_support", "n_folded", "n_seen")
#: parameters of losses with a place of their own: a number, and an array
_EPSILON, _COST = "epsilon", "cost"


def write_streams(est: Any, writer: ArrayWriter) -> dict[str, Any]:
    """The header's part, if there is a stream that may go on; arrays go to the writer."""
    streams = getattr(est, "_streams", None)
    if streams is None:
        return {}
    parts = [_write(stream, f"stream{k}", writer) for k, stream in enumerate(streams)]
    return {"streams": parts}


def _write(stream: SupportStream, name: str, writer: ArrayWriter) -> dict[str, Any]:
    out = {key: encode(float(_get(stream, key))) for key in _FLOATS}
    out |= {key: int(getattr(stream, key)) for key in _COUNTS}
    out |= {"loss": type(stream.loss).__name__, "rows": "none"}
    params = stream.loss.get_params()
    if _COST in params and isinstance(params[_COST], np.ndarray):
        writer.add(f"{name}_cost", params.pop(_COST))
    params.pop(_EPSILON, None)
    # files without the entry mean the defaults of the library's losses
    if own_loss(stream.loss) or params != _defaults(stream.loss):
        out["loss_params"] = plain_params(stream.loss, (_EPSILON, _COST))
    writer.add(f"{name}_plane", stream.plane)
    held = stream.held
    if held is None:
        return out
    for key, array in (("y", held.rows.y), ("weight", held.rows.weight), ("index", held.index)):
        writer.add(f"{name}_{key}", np.asarray(array))
    writer.add(f"{name}_alpha", stream.alpha)
    if isinstance(held.design, DenseDesign):
        writer.add(f"{name}_X", held.design.X)
        return out | {"rows": "dense"}
    for key in ("indptr", "indices"):
        writer.add(f"{name}_{key}", np.asarray(getattr(held.design, key), dtype=np.int64))
    writer.add(f"{name}_data", held.design.data)
    return out | {"rows": "csr"}


def _defaults(loss: ScoreLoss) -> dict[str, Any]:
    """What parameters are unless they are given, without those that have a place of their own."""
    known = inspect.signature(type(loss)).parameters
    return {name: p.default for name, p in known.items() if name not in (_EPSILON, _COST)}


def _get(stream: SupportStream, key: str) -> float:
    """A number of a stream; two it keeps for itself, one its loss has."""
    if key == "epsilon":
        return float(getattr(stream.loss, "epsilon", 0.0))
    value: float = getattr(stream, f"_{key}" if key in ("slack", "credit") else key)
    return value


def read_streams(fitted: dict[str, Any], reader: ArrayReader, d: int) -> dict[str, Any]:
    """The way back, all checked: compiled code will use these rows as they are."""
    if "streams" not in fitted:
        return {}
    stored = fitted["streams"]
    if not isinstance(stored, list) or not stored:
        raise ModelFileError("the streams are not a list")
    streams = [_read(entry, f"stream{k}", reader, d) for k, entry in enumerate(stored)]
    n_support = sum(stream.n_support for stream in streams)
    return {"_streams": streams, "n_seen_": streams[0].n_seen, "n_support_": n_support}


def _read(stored: Any, name: str, reader: ArrayReader, d: int) -> SupportStream:
    entries = (*_FLOATS, *_COUNTS, "loss", "rows")
    stored = section(stored, f"the part {name}", entries, ("loss_params",))
    numbers = {key: decode(stored[key], f"{key} of {name}") for key in _FLOATS}
    for key, value in numbers.items():
        bad = type(value) is not float or np.isnan(value)
        if bad or (not np.isfinite(value) and key not in ("limit", "slack")):
            raise ModelFileError(f"{key} of {name} is {shown(value)}")
    counts = {key: count(stored[key], f"{key} of {name}") for key in _COUNTS}
    if not numbers["C"] > 0.0 or not min(numbers[k] for k in ("limit", "demands", "reach")) >= 0.0:
        raise ModelFileError(f"C, limit, demands or reach of {name} is not positive")
    loss = _loss(stored, numbers["epsilon"], name, reader)
    stream = SupportStream(
        loss, d, numbers["C"], numbers["intercept"], max(1, counts["max_support"])
    )
    stream.plane = reader.take(f"{name}_plane", shape=stream.plane.shape)
    for key in (*_PLANE, "weight_seen"):
        setattr(stream, key, numbers[key])
    for key in ("n_folded", "n_seen"):
        setattr(stream, key, counts[key])
    stream._slack, stream._credit = numbers["slack"], numbers["credit"]
    if stored["rows"] != "none":
        _read_rows(stored["rows"], stream, name, reader)
    stream.dual_value()
    return stream


def _loss(stored: dict[str, Any], epsilon: float, name: str, reader: ArrayReader) -> ScoreLoss:
    kind, what = stored["loss"], f"the loss of {name}"
    params = stored.get("loss_params", {})
    known = LOSSES.get(kind) if isinstance(kind, str) else None
    if known is None and "loss_params" not in stored:
        raise ModelFileError(f"the loss {str(kind)[:40]!r} of {name} is not known")
    special: dict[str, Any] = {}
    takes = () if known is None else inspect.signature(known).parameters
    own = reader.own_loss
    if own is not None and own.__name__ == kind:
        takes = inspect.signature(own).parameters
    if _COST in takes:
        special[_COST] = reader.take(f"{name}_cost", shape=(None, None))
    if _EPSILON in takes:
        special[_EPSILON] = epsilon
    loss = make_loss(kind, params, special, what, own)
    if loss.dual_terms(np.ones(1)) is None:
        raise ModelFileError(f"{what} has no dual of a row, so that there is no stream of it")
    return loss


def _read_rows(kind: Any, stream: SupportStream, name: str, reader: ArrayReader) -> None:
    loss, d = stream.loss, stream.n_features
    weight = reader.take(f"{name}_weight")
    n = len(weight)
    y = reader.take(f"{name}_y", ("float64", "int64"), (n,))
    index = reader.take(f"{name}_index", ("int64",), (n,))
    alpha = reader.take(f"{name}_alpha", shape=(n, *stream.alpha.shape[1:]))
    try:
        loss.check_labels(y)
    except ValueError as error:
        raise ModelFileError(f"the labels of {name}: {shown(error)}") from error
    design = _design(kind, name, reader, n, d)
    rows = Rows(design, y, weight, loss, stream.intercept, ((0, n),))
    if not (weight > 0.0).all():
        raise ModelFileError(f"{name} holds rows without a weight")
    off = alpha.copy()
    if off.ndim == 2:
        off[np.arange(n), y] = 0.0
    if np.abs(into_box(rows, stream.C, alpha) - off).max(initial=0.0) > 1e-9 * stream.C:
        raise ModelFileError(f"{name} holds multipliers that are not feasible")
    stream.held, stream.alpha = LoadedRows(index, rows), alpha


def _design(kind: Any, name: str, reader: ArrayReader, n: int, d: int) -> InMemory:
    floats = ("float32", "float64")
    if kind == "dense":
        return DenseDesign(reader.take(f"{name}_X", floats, (n, d)))
    if kind != "csr":
        raise ModelFileError(f"the rows of {name} are stored in an unknown form")
    indptr = reader.take(f"{name}_indptr", ("int64",), (n + 1,))
    indices = reader.take(f"{name}_indices", ("int64",))
    data = reader.take(f"{name}_data", floats, (len(indices),))
    whole = indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all()
    if not whole or (len(indices) and not 0 <= indices.min() <= indices.max() < d):
        raise ModelFileError(f"the rows of {name} point outside of their matrix")
    design = as_design(sp.csr_matrix((data, indices, indptr), shape=(n, d), copy=False))
    if not isinstance(design, CSRDesign):  # which has no entry twice
        raise ModelFileError(f"the rows of {name} are not a sparse matrix")
    return design
