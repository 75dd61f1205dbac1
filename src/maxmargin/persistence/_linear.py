"""Linear estimators in a model file: weights, names of features, classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.estimators import LinearSVC, LinearSVR, MeasureSVC
from maxmargin.persistence._arrays import AnyArray, ArrayReader, ArrayWriter
from maxmargin.persistence._streams import read_streams, write_streams
from maxmargin.persistence._values import (
    ModelFileError,
    check_label,
    count,
    decode_labels,
    encode,
    section,
)

_NUMERIC = {
    np.dtype(order + code).str
    for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
    for order in "<>"
}


def write_linear(est: LinearSVC | MeasureSVC, writer: ArrayWriter) -> dict[str, Any]:
    writer.add("coef", est.coef_)
    writer.add("intercept", est.intercept_)
    write_names(est, writer)
    classes = write_classes(est.classes_, writer)
    return {"classes": classes, "n_features": est.n_features_in_} | write_streams(est, writer)


def read_linear(stored: Any, reader: ArrayReader) -> dict[str, Any]:
    stored = section(stored, "the fitted part", ("classes", "n_features"), ("streams",))
    d = count(stored["n_features"], "n_features", least=1)
    coef = reader.take("coef", shape=(None, d))
    classes = read_classes(stored["classes"], reader)
    rows = 1 if len(classes) == 2 else len(classes)
    if len(classes) < 2 or len(coef) != rows:
        raise ModelFileError(f"{len(coef)} rows of weights do not fit {len(classes)} classes")
    out: dict[str, Any] = {"coef_": coef, "intercept_": reader.take("intercept", shape=(rows,))}
    out |= read_streams(stored, reader, d)
    return out | {"classes_": classes, "n_features_in_": d} | read_names(d, reader)


def write_regression(est: LinearSVR, writer: ArrayWriter) -> dict[str, Any]:
    writer.add("coef", est.coef_)
    writer.add("intercept", est.intercept_)
    write_names(est, writer)
    return {"n_features": est.n_features_in_} | write_streams(est, writer)


def read_regression(stored: Any, reader: ArrayReader) -> dict[str, Any]:
    stored = section(stored, "the fitted part", ("n_features",), ("streams",))
    d = count(stored["n_features"], "n_features", least=1)
    out: dict[str, Any] = {"coef_": reader.take("coef", shape=(d,)), "n_features_in_": d}
    out |= read_streams(stored, reader, d)
    return out | {"intercept_": reader.take("intercept", shape=(1,))} | read_names(d, reader)


def write_names(est: Any, writer: ArrayWriter) -> None:
    if hasattr(est, "feature_names_in_"):
        writer.add_names("feature_names", est.feature_names_in_)


def read_names(d: int, reader: ArrayReader) -> dict[str, Any]:
    if not reader.has("feature_names"):
        return {}
    names = reader.take_names("feature_names")
    if len(names) != d or not all(type(name) is str for name in names):
        raise ModelFileError(f"the feature names are not {d} texts")
    return {"feature_names_in_": _objects(names)}


def write_classes(classes: AnyArray, writer: ArrayWriter) -> dict[str, Any]:
    dtype = classes.dtype
    if dtype.str in _NUMERIC:
        writer.add("classes", classes)
        return {"dtype": dtype.str}
    if dtype.kind == "U":  # its code points, because JSON would lose the width
        native = np.ascontiguousarray(classes, dtype=dtype.newbyteorder("="))
        writer.add("classes", native.view(np.uint32).reshape(len(classes), dtype.itemsize // 4))
        return {"dtype": dtype.str}
    if dtype.kind == "O":
        for label in classes:
            check_label(label)
        return {"dtype": "object", "values": [encode(label) for label in classes]}
    raise ValueError(f"classes of type {dtype} cannot be saved; use numbers, texts or objects.")


def read_classes(stored: Any, reader: ArrayReader) -> AnyArray:
    stored = section(stored, "the classes", ("dtype",), ("values",))
    dtype = stored["dtype"]
    if dtype == "object":
        return _objects(decode_labels(stored.get("values"), "the classes"))
    if "values" in stored or not isinstance(dtype, str):
        raise ModelFileError("the classes are stored in an unknown form")
    if dtype in _NUMERIC:
        wanted = np.dtype(dtype)
        classes = reader.take("classes", (wanted.name,)).astype(wanted)
    else:
        letters = reader.take("classes", ("uint32",), (None, None))
        width = letters.shape[1]
        if dtype not in (f"<U{width}", f">U{width}") or width < 1:
            raise ModelFileError(f"classes of type {dtype!r} do not fit texts of {width} letters")
        if letters.size and letters.max() > 0x10FFFF:
            raise ModelFileError("the classes hold letters that do not exist")
        classes = letters.view(f"=U{width}").reshape(-1).astype(dtype)
    if len(np.unique(classes)) != len(classes):
        raise ModelFileError("the classes are not distinct")
    return classes


def _objects(values: list[Any]) -> AnyArray:
    out = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):  # one by one: NumPy would take tuples apart
        out[k] = value
    return out
