"""Objects in model files: converted to tagged plain values, and made from fixed lists of classes.

$object   a solver, stopping rule, kernel, kernel method or prior: its class and its fields
$loss     a loss: its class and its parameters. The class of a user's own loss is passed to ``load``
$matrix   a sparse matrix
$objects  a NumPy array of labels of different types
$stream   what ``partial_fit`` keeps
$set_stream  the same of structured examples
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin import kernels, losses, solvers
from maxmargin.core.matrices import check_dense, checked_csr
from maxmargin.core.stored_values import count, entries, floats, number
from maxmargin.duals.one_pass import SupportStream
from maxmargin.estimators.kernel.methods import METHODS
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.files.codec import FormatError, Tagged, shown
from maxmargin.kernels.features import KernelFeatures
from maxmargin.losses import ScoreLoss
from maxmargin.persistence._fields import is_label, section
from maxmargin.persistence._streams import (
    make_set_stream,
    make_stream,
    set_stream_values,
    stream_values,
)
from maxmargin.risks.structured.stream import SetStream

RULES = (solvers.RelativeGap, solvers.AbsoluteGap, solvers.RiskEpsilon)
SOLVERS = (solvers.Auto, solvers.CuttingPlane, solvers.DualCoordinate, solvers.Newton)
KERNELS = (
    kernels.RBF, kernels.Polynomial, kernels.Sigmoid, kernels.Linear, kernels.Precomputed,
)  # fmt: skip
#: losses that a file may name
LOSSES: dict[str, type[ScoreLoss]] = {
    name: getattr(losses, name)
    for name in (
        "AtK", "BalancedError", "CrammerSinger", "EpsilonInsensitive", "FBeta", "Hinge", "Logistic",
        "Multinomial", "OneClass", "QMeasure", "QuantificationLoss", "Quantile", "RocAuc",
        "SquaredEpsilonInsensitive", "SquaredHinge",
    )
}  # fmt: skip


class MissingLossError(LookupError):
    """The file needs a class that was not passed to ``load``."""


def _classes() -> dict[str, type]:
    """The only classes, beside losses, that a file may name."""
    known: tuple[Any, ...] = (*RULES, *SOLVERS, *KERNELS, *METHODS)
    return {cls.__name__: cls for cls in (*known, GaussianPrior, KernelFeatures)}


# -- writing ---------------------------------------------------------------------------------------


def convert(value: Any) -> Any:
    """The value, or plain values for it. NumPy scalars become Python's, and mappings become dicts."""
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        return value.item()
    if type(value) is np.ndarray and value.dtype.kind == "O":
        return Tagged("objects", list(value))
    if isinstance(value, Mapping):
        return dict(value)
    if sp.issparse(value) and value.format == "csr":
        parts = {name: getattr(value, name) for name in ("data", "indices", "indptr")}
        return Tagged("matrix", {**parts, "shape": list(map(int, value.shape))})
    if isinstance(value, ScoreLoss):
        own_loss(value)
        return Tagged("loss", {"class": type(value).__name__, **value.get_params()})
    if isinstance(value, SupportStream):
        return Tagged("stream", stream_values(value))
    if isinstance(value, SetStream):
        return Tagged("set_stream", set_stream_values(value))
    if isinstance(value, kernels.FromCallable) and type(value) not in KERNELS:
        raise ValueError(
            f"the kernel is a function, {value.function!r}, and a model file holds no code: use a kernel "
            "with a name ('rbf', 'poly', ...), or pickle the estimator."
        )
    cls: Any = type(value)
    if cls in _classes().values():
        values = {field.name: getattr(value, field.name) for field in fields(cls) if field.init}
        return Tagged("object", {"class": cls.__name__, **values})
    return value


def own_loss(loss: Any) -> type[ScoreLoss] | None:
    """The class of a loss object that is not of the library; it must not have the name of one that is."""
    if not isinstance(loss, ScoreLoss) or type(loss) is LOSSES.get(type(loss).__name__):
        return None
    if type(loss).__name__ in LOSSES:
        raise ValueError(
            f"your class has the name of the library's loss {type(loss).__name__}: rename your class to save "
            "the model."
        )
    return type(loss)


# -- reading ---------------------------------------------------------------------------------------


def makers(own: type[ScoreLoss] | None, keyword: str = "loss") -> dict[str, Callable[[Any], Any]]:
    """Functions that make objects, by tag; ``own`` is the class of a user's own loss, and ``keyword`` the
    argument of ``load`` for it."""
    return {
        "object": _make_object,
        "loss": partial(_make_loss, own=own, keyword=keyword),
        "matrix": _make_matrix,
        "objects": _make_objects,
        "stream": make_stream,
        "set_stream": make_set_stream,
    }


def _make_object(content: object) -> Any:
    (name,) = entries(content, "class")
    known = _classes()
    if not isinstance(name, str) or name not in known:
        raise FormatError(f"the file names a class {shown(name)}, which a model file may not hold")
    cls = known[name]
    own = tuple(field.name for field in fields(cls) if field.init)
    values = section(content, f"an object {name}", ("class",), own)
    del values["class"]
    made = cls(**values)
    if cls in KERNELS:
        for key in own:
            number(getattr(made, key), f"{name}.{key}")
    if cls is KernelFeatures:
        _check_features(made)
    return made


def _check_features(features: KernelFeatures) -> None:
    b = check_rows(features.rows, "the basis of the kernel", (None, None)).shape[0]
    if b < 1 or not isinstance(features.kernel, KERNELS[:-1]):
        raise FormatError("the kernel's features have no basis or no kernel")
    if features.factor is not None:
        floats(features.factor, "the factor of the kernel's features", (b, None))


def check_rows(rows: Any, what: str, shape: tuple[int | None, int | None]) -> Any:
    """The rows, if they are a dense or sparse matrix of finite floats of this shape."""
    found: tuple[int, ...] = getattr(rows, "shape", ())
    if len(found) != 2 or any(b not in (None, a) for a, b in zip(found, shape, strict=True)):
        raise FormatError(f"{what} has the shape {found}, not {shape}")
    if not sp.issparse(rows):  # a sparse matrix was checked when it was made
        if rows.dtype not in (np.float32, np.float64):
            raise FormatError(f"{what} is a matrix of {rows.dtype}")
        check_dense(rows, what)
    return rows


def _make_loss(content: Any, own: type[ScoreLoss] | None, keyword: str) -> ScoreLoss:
    (name,) = entries(content, "class")
    if not isinstance(name, str) or not name.isidentifier():
        raise FormatError("the file names no loss")
    cls = LOSSES.get(name, own)
    if cls is None or cls.__name__ != name:
        given = "" if own is None else f"; the class given is {own.__name__}"
        raise MissingLossError(
            f"the model was trained with {name[:80]}. Your own loss or measure is code, and code is not "
            f"stored: pass its class as load(path, {keyword}={name[:80]}){given}."
        )
    return cls(**{key: value for key, value in content.items() if key != "class"})


def _make_matrix(content: object) -> Any:
    parts = section(content, "a sparse matrix", ("data", "indices", "indptr", "shape"))
    n, d = (count(length, "a length of a sparse matrix") for length in parts["shape"])
    arrays = parts["data"], parts["indices"], parts["indptr"]
    return checked_csr(sp.csr_matrix(arrays, shape=(n, d), copy=False), "a sparse matrix")


def _make_objects(content: object) -> Any:
    if not isinstance(content, list) or not all(is_label(value) for value in content):
        raise FormatError(
            f"the file holds an array of objects that are not labels: {shown(content)}"
        )
    out = np.empty(len(content), dtype=object)
    for k, value in enumerate(content):  # one by one: NumPy would split tuples
        out[k] = value
    return out


def is_plain(value: object) -> bool:
    """Whether a value is a label or a list of labels."""
    return is_label(value) or (isinstance(value, list) and all(map(is_label, value)))
