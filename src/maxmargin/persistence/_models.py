"""What each estimator keeps in a model file, and how it is made whole again.

Every estimator has a writer (fitted estimator -> the header's "fitted" section; arrays go to the ArrayWriter)
and a reader (section and arrays, checked -> the attributes that ``fit`` would have set).
"""

from __future__ import annotations

import math
import typing
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.feature_extraction import DictVectorizer

from maxmargin.core.result import Certificate, StopReason
from maxmargin.estimators import (
    GrammarParser,
    GraphLabeler,
    KernelSVC,
    LatentStructuredSVM,
    LinearSVC,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
)
from maxmargin.estimators.structured.tagged_data import label_functions
from maxmargin.persistence._arrays import ArrayReader, ArrayWriter
from maxmargin.persistence._grammars import read_parser, write_parser
from maxmargin.persistence._kernel_features import read_features, write_features
from maxmargin.persistence._kernels import read_kernel_svc, write_kernel_svc
from maxmargin.persistence._linear import (
    read_classes,
    read_linear,
    read_names,
    read_regression,
    write_classes,
    write_linear,
    write_names,
    write_regression,
)
from maxmargin.persistence._values import (
    ModelFileError,
    check_label,
    count,
    decode,
    decode_labels,
    encode,
    section,
    shown,
)
from maxmargin.tasks.chains.chain import Chain
from maxmargin.tasks.graphs.labeling import GraphLabeling

# -- the certificate -------------------------------------------------------------------------------

_CERTIFICATE = (
    "objective",
    "lower_bound",
    "gap",
    "converged",
    "stop_reason",
    "certificate",
    "n_iter",
)


def store_certificate(estimator: Any) -> dict[str, Any]:
    """The certificate as JSON."""
    return {name: encode(getattr(estimator, f"{name}_")) for name in _CERTIFICATE}


def read_certificate(stored: Any) -> dict[str, Any]:
    """The certificate's attributes; bounds that contradict each other are refused."""
    entries = section(stored, "the certificate", _CERTIFICATE)
    out = {name: decode(entries[name], f"{name} of the certificate") for name in _CERTIFICATE}
    for name in ("objective", "lower_bound", "gap"):
        if type(out[name]) is not float:
            raise ModelFileError(
                f"{name} of the certificate must be a float, not {shown(out[name])}"
            )
    if type(out["converged"]) is not bool:
        raise ModelFileError("converged of the certificate must be true or false")
    for name, values in (("stop_reason", StopReason), ("certificate", Certificate)):
        if out[name] not in typing.get_args(values):
            raise ModelFileError(
                f"{name} of the certificate is {shown(out[name])}, which is not known"
            )
    count(out["n_iter"], "n_iter of the certificate")
    # an objective of NaN is legal: a fit that was interrupted twice has none
    if math.isnan(out["lower_bound"]) or out["lower_bound"] > out["objective"]:
        raise ModelFileError("the certificate's lower bound is not below its objective")
    if not out["gap"] >= 0.0:
        raise ModelFileError(
            f"the certificate's gap is {out['gap']!r}: it cannot be negative or NaN"
        )
    bounded = math.isfinite(out["objective"]) and math.isfinite(out["lower_bound"])
    if out["converged"] and not bounded:
        raise ModelFileError("the certificate claims convergence without two finite bounds")
    return {f"{name}_": value for name, value in out.items()}


# -- RankSVM ---------------------------------------------------------------------------------------


def _write_ranker(est: RankSVM, writer: ArrayWriter) -> dict[str, Any]:
    writer.add("coef", est.coef_)
    writer.add("levels", est.levels_)
    write_names(est, writer)
    return {"n_features": est.n_features_in_, "n_queries": int(est.n_queries_)}


def _read_ranker(stored: Any, reader: ArrayReader) -> dict[str, Any]:
    stored = section(stored, "the fitted part", ("n_features",), ("n_queries",))
    d = count(stored["n_features"], "n_features", least=1)
    levels = reader.take("levels", shape=(None,))
    if not (np.diff(levels) > 0.0).all():
        raise ModelFileError("the levels do not ascend")
    out = {"coef_": reader.take("coef", shape=(d,)), "levels_": levels, "n_features_in_": d}
    # files written before this number was stored: nothing is required of groups then
    out["n_queries_"] = count(stored.get("n_queries", 1), "n_queries", least=1)
    return out | read_names(d, reader)


# -- SequenceTagger --------------------------------------------------------------------------------

_MASKS = ("allowed", "allowed_start", "allowed_stop")


OPTIONAL = ("order", "kernel", "string_tokens")


def _write_tagger(est: SequenceTagger, writer: ArrayWriter) -> dict[str, Any]:
    for label in est.classes_:
        check_label(label)
    task = est.task_
    writer.add("weights", est.weights_)
    if not np.array_equal(task.cost, 1.0 - np.eye(task.n_labels)):
        writer.add("cost", task.cost)
    for name in _MASKS:
        if not getattr(task, name).all():
            writer.add(name, getattr(task, name))
    if est.vectorizer_ is not None:
        for feature in est.vectorizer_.feature_names_:
            check_label(feature)
        writer.add_names("vocabulary", est.vectorizer_.feature_names_)
    out: dict[str, Any] = {
        "labels": [encode(label) for label in est.classes_],
        "n_features": int(est.n_features_in_),
        "order": 1 if task.n_labels == len(est.classes_) else 2,
    }
    if not est._string_tokens:
        out["string_tokens"] = False
    scores = est.expansion_
    if scores is not None:
        out["kernel"] = write_features(est, scores.kernel, scores.rows, None, writer)
    return out


def _read_tagger(stored: Any, reader: ArrayReader) -> dict[str, Any]:
    stored = section(stored, "the fitted part", ("labels", "n_features"), OPTIONAL)
    labels = decode_labels(stored["labels"], "the labels")
    d, K = count(stored["n_features"], "n_features"), len(labels)
    if K < 1:
        raise ModelFileError("there are no labels")
    order = stored.get("order", 1)
    if type(order) is not int or order not in (1, 2):
        raise ModelFileError(f"a chain of order {shown(order)} is not known")
    K = K if order == 1 else K * (K + 1)  # states
    features, n_rows = None, d
    said: dict[str, Any] = {}
    if "kernel" in stored:
        features, said = read_features(stored["kernel"], reader, with_factor=False)
        n_rows = features.n_features
        if features.rows.shape[1] != d:
            raise ModelFileError(f"the rows of the basis do not have {d} features")
    # the weights come first: nothing of size K^2 is made unless the file holds as much
    weights = reader.take("weights", shape=(n_rows * K + K * K + 2 * K,))
    optional: dict[str, Any] = {}
    if reader.has("cost"):
        optional["cost"] = reader.take("cost", shape=(K, K))
    for name in _MASKS:
        if reader.has(name):
            optional[name] = reader.take(name, ("bool",), (K, K) if name == "allowed" else (K,))
    try:
        task = Chain(n_labels=K, n_features=n_rows, **optional)
    except ValueError as error:
        raise ModelFileError(f"the chain cannot be built: {shown(error)}") from error
    vectorizer = None
    if reader.has("vocabulary"):
        names = reader.take_names("vocabulary")
        if len(names) != d:
            raise ModelFileError(f"the vocabulary has {len(names)} names for {d} features")
        vectorizer = DictVectorizer(sparse=True, sort=True)
        vectorizer.feature_names_ = names
        vectorizer.vocabulary_ = {name: k for k, name in enumerate(names)}
    scores = None
    if features is not None:
        scores = label_functions(task, weights, features.kernel, features.rows)
    return said | {
        "classes_": labels,
        "n_features_in_": d,
        "weights_": weights,
        "expansion_": scores,
        "vectorizer_": vectorizer,
        "_string_tokens": stored.get("string_tokens") is not False,
        "task_": task,
    }


# -- GraphLabeler ----------------------------------------------------------------------------------


def _write_graphs(est: GraphLabeler, writer: ArrayWriter) -> dict[str, Any]:
    task = est.task_
    writer.add("weights", est.weights_)
    if not np.array_equal(task.cost, 1.0 - np.eye(task.n_labels)):
        writer.add("cost", task.cost)
    return {
        "classes": write_classes(est.classes_, writer),
        "n_features": int(est.n_features_in_),
        "n_edge_features": int(est.n_edge_features_in_),
        "edges": task.edges,
        "inference": task.method,
    }


def _read_graphs(stored: Any, reader: ArrayReader) -> dict[str, Any]:
    names = ("classes", "n_features", "n_edge_features", "edges", "inference")
    stored = section(stored, "the fitted part", names)
    classes = read_classes(stored["classes"], reader)
    d, e = (count(stored[name], name) for name in ("n_features", "n_edge_features"))
    K = len(classes)
    # the weights come first: nothing of size K^2 is made unless the file holds as much
    weights = reader.take("weights")
    if K < 1 or len(weights) < d * K + e:
        raise ModelFileError(f"{len(weights)} weights do not fit {K} labels")
    if e == 0 and max(1, len(weights)) < K * K:
        raise ModelFileError(f"{K} labels without weights of edges")
    cost = reader.take("cost", shape=(K, K)) if reader.has("cost") else None
    options = {"edges": stored["edges"], "inference": stored["inference"], "cost": cost}
    try:
        task = GraphLabeling(K, n_features=d, n_edge_features=e, **options)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"the task cannot be built: {shown(error)}") from error
    if task.dim != len(weights):
        raise ModelFileError(f"{len(weights)} weights where the task has {task.dim}")
    return {
        "classes_": classes,
        "n_features_in_": d,
        "n_edge_features_in_": e,
        "weights_": weights,
        "task_": task,
    }


# -- StructuredSVM ---------------------------------------------------------------------------------


def _write_structured(
    est: StructuredSVM | LatentStructuredSVM, writer: ArrayWriter
) -> dict[str, Any]:
    writer.add("coef", est.coef_)
    out = {"task": type(est.task_).__name__, "dim": len(est.coef_)}
    features = getattr(est, "kernel_features_", None)
    if features is not None:
        parts = features.kernel, features.rows, features.factor
        out["kernel"] = write_features(est, *parts, writer)
    return out


def _read_structured(stored: Any, reader: ArrayReader) -> dict[str, Any]:
    stored = section(stored, "the fitted part", ("task", "dim"), ("kernel",))
    if not isinstance(stored["task"], str):
        raise ModelFileError("the name of the task is not a text")
    dim = count(stored["dim"], "dim", least=1)
    features = None
    said: dict[str, Any] = {}
    if "kernel" in stored:
        features, said = read_features(stored["kernel"], reader, with_factor=True)
    return said | {"coef_": reader.take("coef", shape=(dim,)), "kernel_features_": features}


_CONVEX = ("convex_objective", "convex_lower_bound", "convex_gap")


def _write_latent(est: LatentStructuredSVM, writer: ArrayWriter) -> dict[str, Any]:
    convex = {name: encode(float(getattr(est, f"{name}_"))) for name in _CONVEX}
    return _write_structured(est, writer) | {"convex": convex}


def _read_latent(stored: Any, reader: ArrayReader) -> dict[str, Any]:
    stored = dict(section(stored, "the fitted part", ("task", "dim", "convex")))
    convex = section(stored.pop("convex"), "the last convex problem", _CONVEX)
    values = {f"{name}_": decode(convex[name], name) for name in _CONVEX}
    if not all(type(value) is float for value in values.values()):
        raise ModelFileError("the bounds of the last convex problem must be floats")
    coef = _read_structured(stored, reader)["coef_"]
    return {"coef_": coef, **values}


def check_task(task: Any, stored: dict[str, Any]) -> None:
    """Refuse a caller's task that cannot be the one the weights were trained for."""
    name, dim = shown(stored["task"]).strip("'"), stored["dim"]
    if task is None:
        raise ValueError(
            f"this file holds the weights of a model whose task was a {name}. A task is code, and "
            f"code is not stored: pass it, ready to predict, as load(path, task={name}(...))."
        )
    if isinstance(task, type) or not callable(getattr(task, "inference", None)):
        raise TypeError(
            f"task must be a task object, for example {name}(...), with a method inference(x, w); got "
            f"{task!r}."
        )
    if type(task).__name__ != name:
        warnings.warn(
            f"the weights were trained for a task of class {name}; the one given is a {type(task).__name__}.",
            UserWarning,
            stacklevel=4,
        )
    try:
        own = task.dim
    except Exception:  # no such attribute, or not known before setup: then it cannot be compared
        return
    if isinstance(own, int | np.integer) and own != dim:
        raise ValueError(
            f"the task has joint features of dimension {own}, but the file holds {dim} weights. Pass a task "
            "that is set up on the alphabet it was trained with."
        )


class Model(NamedTuple):
    """How one class of estimators is written and read."""

    cls: Any
    #: attributes without which it is not fitted
    fitted: tuple[str, ...]
    write: Callable[[Any, ArrayWriter], dict[str, Any]]
    read: Callable[[Any, ArrayReader], dict[str, Any]]


#: the only classes a file may ask for
MODELS: dict[str, Model] = {
    "GrammarParser": Model(
        GrammarParser, ("coef_", "task_", "certificate_"), write_parser, read_parser
    ),
    "GraphLabeler": Model(GraphLabeler, ("weights_", "certificate_"), _write_graphs, _read_graphs),
    "KernelSVC": Model(
        KernelSVC, ("dual_coef_", "certificate_"), write_kernel_svc, read_kernel_svc
    ),
    "LatentStructuredSVM": Model(
        LatentStructuredSVM, ("coef_", "certificate_"), _write_latent, _read_latent
    ),
    "LinearSVC": Model(LinearSVC, ("coef_", "certificate_"), write_linear, read_linear),
    "LinearSVR": Model(LinearSVR, ("coef_", "certificate_"), write_regression, read_regression),
    "MeasureSVC": Model(MeasureSVC, ("coef_", "certificate_"), write_linear, read_linear),
    "RankSVM": Model(RankSVM, ("coef_", "certificate_"), _write_ranker, _read_ranker),
    "SequenceTagger": Model(
        SequenceTagger, ("weights_", "certificate_"), _write_tagger, _read_tagger
    ),
    "StructuredSVM": Model(
        StructuredSVM, ("coef_", "certificate_"), _write_structured, _read_structured
    ),
}
