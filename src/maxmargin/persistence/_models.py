"""What each estimator keeps in a model file: a table of its fitted attributes.

Attributes that a table cannot describe, such as a task, are made from other values of the file by a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from maxmargin.core import stored_values
from maxmargin.core.user_warnings import warn_user
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer
from maxmargin.estimators.kernel.kernel_svc import KernelSVC
from maxmargin.estimators.kernel.kernel_svr import KernelSVR
from maxmargin.estimators.kernel.one_class_svm import OneClassSVM
from maxmargin.estimators.linear.linear_svc import LinearSVC
from maxmargin.estimators.linear.linear_svr import LinearSVR
from maxmargin.estimators.linear.logistic_regression import LogisticRegression
from maxmargin.estimators.linear.measure_svc import MeasureSVC
from maxmargin.estimators.linear.ordinal_svc import OrdinalSVC
from maxmargin.estimators.linear.proven import Proof
from maxmargin.estimators.linear.rank_svm import RankSVM
from maxmargin.estimators.structured.grammar_parser import GrammarParser
from maxmargin.estimators.structured.graph_labeler import GraphLabeler
from maxmargin.estimators.structured.latent_structured_svm import LatentStructuredSVM
from maxmargin.estimators.structured.sequence_tagger import SequenceTagger
from maxmargin.estimators.structured.structured_svm import StructuredSVM
from maxmargin.estimators.structured.tagged_data import label_functions
from maxmargin.files.codec import FormatError, shown
from maxmargin.kernels import Precomputed
from maxmargin.kernels.features import KernelFeatures
from maxmargin.persistence import _fields as f
from maxmargin.persistence._fields import Fields, Sizes
from maxmargin.persistence._grammars import PARSER, parser_values, read_parser
from maxmargin.persistence._objects import KERNELS, check_rows, convert, is_plain
from maxmargin.risks.structured.stream import SetStream
from maxmargin.tasks.chains.chain import Chain
from maxmargin.tasks.graphs.labeling import GraphLabeling

# -- the certificate -------------------------------------------------------------------------------

CERTIFICATE: Fields = {
    "objective_": f.of_type(float),
    "lower_bound_": f.of_type(float),
    "gap_": f.of_type(float),
    "converged_": f.of_type(bool),
    "stop_reason_": f.of_type(str),
    "certificate_": f.of_type(str),
    "n_iter_": f.count()._replace(prepare=lambda value: int(np.max(value))),
}


# -- linear estimators -----------------------------------------------------------------------------


def _check_streams(value: Any, name: str, sizes: Sizes) -> Any:
    if not value or any(stream.n_features != sizes["d"] for stream in value):
        raise FormatError(f"the streams are not streams of {sizes['d']} features")
    return value


def _check_coefficients(value: object, name: str, sizes: Sizes) -> Any:
    if getattr(value, "ndim", 1) == 2:  # several quantiles
        return f.array("outputs", "d").check(value, name, sizes)
    sizes["outputs"] = 1
    return f.array("d").check(value, name, sizes)


def _check_thresholds(value: object, name: str, sizes: Sizes) -> Any:
    sizes["thresholds"] = sizes["classes"] - 1
    return f.array("thresholds").check(value, name, sizes)


def _check_proof(value: object, name: str, sizes: Sizes) -> Proof:
    stored, height = f.section(value, name, Proof._fields), sizes["outputs"]
    half, radius = stored["difference"], stored["radius"]
    if getattr(half, "dtype", None) != np.float16 or half.shape != (height, sizes["d"]):
        raise FormatError(f"{name} does not fit the weights")
    if not np.isfinite(half).all() or getattr(radius, "shape", ()) not in ((1,), (height,)):
        raise FormatError(f"{name} has no valid radius")
    for part, shape in (("intercept", (height,)), ("radius", radius.shape)):
        stored_values.floats(stored[part], f"the entries of {name}", shape)
    middle, loose = stored["middle"], stored["loose"]
    pairs = (1, 1) if getattr(middle, "shape", ()) == (0,) else (height, height)
    stored_values.floats(loose, f"the entries of {name}", pairs, finite=False)
    if min(radius.min(), loose.min()) < 0.0:
        raise FormatError(f"{name} has a negative radius")
    if middle.dtype != np.float32 or middle.shape not in ((0,), (sizes["d"],)):
        raise FormatError(f"{name} does not fit the weights")
    for part in ("unit", "constant"):
        stored[part] = stored_values.number(stored[part], f"{part} of {name}", 0.0)
    return Proof(**stored)


_FEATURES: Fields = {
    "n_features_in_": f.count(1, "d"),
    "feature_names_in_": f.optional(f.classes("d", str)),
}
_LINEAR: Fields = {**_FEATURES, "_streams": f.optional(f.Field(_check_streams))}
_CLASSIFIER: Fields = {
    **_LINEAR,
    "classes_": f.classes("classes"),
    "coef_": f.array("outputs", "d"),
    "intercept_": f.array("outputs"),
}
_PROOF: Fields = {"_proof": f.optional(f.Field(_check_proof, prepare=Proof._asdict))}
_MEASURE: Fields = {**_CLASSIFIER, "threshold_": f.of_type(float)}
_REGRESSION: Fields = {
    **_LINEAR,
    "coef_": f.Field(_check_coefficients),
    "intercept_": f.array("outputs"),
}
_ORDINAL: Fields = {
    **_FEATURES,
    "classes_": f.classes("classes"),
    "coef_": f.array("d"),
    "thresholds_": f.Field(_check_thresholds),
}
_RANKER: Fields = {
    **_FEATURES,
    "coef_": f.array("d"),
    "levels_": f.array(None),
    "n_queries_": f.count(1),
}


def _read_linear(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    streams = stored.get("_streams")
    if streams is not None:
        n_support = sum(stream.n_support for stream in streams)
        stored |= {"n_seen_": streams[0].n_seen, "n_support_": n_support}
    return stored


def _read_classifier(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    K, rows = sizes["classes"], sizes["outputs"]
    if K < 2 or rows != (1 if K == 2 else K):
        raise FormatError(f"{rows} rows of weights do not fit {K} classes")
    return _read_linear(stored, sizes)


# -- KernelSVC -------------------------------------------------------------------------------------

_EXTRA = re.compile("[a-z][a-z_]*[a-z]_")


def _check_vectors(value: object, name: str, sizes: Sizes) -> Any:
    given = getattr(value, "shape", ()) == (0, sizes["d"])  # kernel="precomputed"
    return check_rows(value, name, (0 if given else sizes["support"], sizes["d"]))


def _check_extras(value: object, name: str, sizes: Sizes) -> Any:
    taken = {*_KERNEL, *CERTIFICATE, "history_", "shape_fit_", *dir(KernelSVC)}
    for extra in value if isinstance(value, dict) else [""]:
        if type(extra) is not str or not _EXTRA.fullmatch(extra) or extra in taken:
            raise FormatError(f"the extra {shown(extra)} does not belong there")
    return value


_EXPANSION: Fields = {
    **_FEATURES,
    "n_samples": f.count(1, "samples"),
    "support_": f.array("support", of="integers", below="samples"),
    "n_support_": f.array("classes", of="integers"),
    "dual_coef_": f.array("height", "support"),
    "intercept_": f.array("intercepts"),
    "support_vectors_": f.Field(_check_vectors),
    "kernel_": f.of_type(*KERNELS),
    "extras": f.Field(_check_extras),
}
_ONE_CLASS: Fields = {
    **_EXPANSION,
    "_weights": f.optional(f.array("d")),
    **{name: f.of_type(float) for name in ("C_", "nu_", "offset_")},
    "n_fits_": f.count(1),
}
_KERNEL: Fields = {"classes_": f.classes("classes"), **_EXPANSION}


def _kernel_values(est: Any) -> dict[str, Any]:
    # without arrays of one method: no prediction needs them
    extras = {name: convert(getattr(est, name)) for name in est._extras}
    plain = {name: value for name, value in extras.items() if is_plain(value)}
    return {"n_samples": int(est.shape_fit_[0]), "extras": plain}


def _read_kernel_svc(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    K, found = sizes["classes"], (sizes["height"], sizes["intercepts"])
    if K < 2 or found not in ([(1, 1)] if K == 2 else [(K - 1, K * (K - 1) // 2), (K, K)]):
        raise FormatError(f"coefficients and intercepts of {found} do not fit {K} classes")
    return _read_expansion(stored, sizes)


def _read_kernel_svr(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    if (sizes["classes"], sizes["height"], sizes["intercepts"]) != (1, 1, 1):
        raise FormatError("there is more than one function")
    return _read_expansion(stored, sizes)


def _read_expansion(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    if stored["n_support_"].sum() != sizes["support"]:
        raise FormatError("the numbers of support vectors do not add up")
    given = isinstance(stored["kernel_"], Precomputed)
    if stored["support_vectors_"].shape[0] != (0 if given else sizes["support"]):
        raise FormatError("the support vectors do not fit their number")
    if given and stored["n_samples"] != sizes["d"]:
        raise FormatError("kernel values are not those of the training samples")
    extras, shape = stored.pop("extras"), (stored.pop("n_samples"), sizes["d"])
    return extras | stored | {"shape_fit_": shape, "_extras": tuple(extras)}


# -- structured estimators -------------------------------------------------------------------------

#: attributes that a fit with a kernel sets
_ABOUT_KERNEL: Fields = {
    "kernel_method_": f.optional(f.of_type(str)),
    "restricted_lower_bound_": f.optional(f.of_type(float)),
    "restricted_gap_": f.optional(f.of_type(float)),
    "kernel_values_": f.optional(f.count()),
}
_STREAM: Fields = {"_stream": f.optional(f.of_type(SetStream))}
_MASKS = ("allowed", "allowed_start", "allowed_stop")


def _read_structured(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    """The stream of ``partial_fit`` has the weights as its average."""
    stream: SetStream | None = stored.get("_stream")
    if stream is None:
        return stored
    weights = stored["weights_" if "weights_" in stored else "coef_"]
    if stream.w.shape != weights.shape:
        raise FormatError(f"the stream has {stream.w.size} weights, and the model {weights.size}")
    stream.average = weights.copy()
    return stored | {"n_seen_": stream.n_seen, "n_support_": stream.n_support}


def _check_order(value: object, name: str, sizes: Sizes) -> Any:
    if type(value) is not int or value not in (1, 2):
        raise FormatError(f"the order of the tagger is {shown(value)}")
    K = sizes["classes"]
    sizes["states"] = K if value == 1 else K * (K + 1)
    return value


_TAGGER: Fields = {
    **_ABOUT_KERNEL,
    **_STREAM,
    "n_features_in_": f.count(0, "d"),
    "classes_": f.labels("classes"),
    "_string_tokens": f.of_type(bool),
    "order": f.Field(_check_order),
    "basis": f.optional(f.of_type(KernelFeatures)),
    "vocabulary": f.optional(f.labels("d")),
    "hashed": f.optional(f.of_type(bool)),
    "weights_": f.array("weights"),
    "nonzero": f.optional(f.array("mask", of="integers")),
    "cost": f.optional(f.array("states", "states")),
    "allowed": f.optional(f.array("states", "states", of="flags")),
    "allowed_start": f.optional(f.array("states", of="flags")),
    "allowed_stop": f.optional(f.array("states", of="flags")),
    "calibration_": f.optional(f.array(2, "knots")),
}


#: of a tagger's weights that are zero, one of so many is stored
STORED = 16


def _cost(task: Any) -> dict[str, Any]:
    """The cost of a task, if it is not the default."""
    default = np.array_equal(task.cost, 1.0 - np.eye(task.n_labels))
    return {} if default else {"cost": task.cost}


def _tagger_values(est: SequenceTagger) -> dict[str, Any]:
    task, scores = est.task_, est.expansion_
    out = {"order": 1 if task.n_labels == len(est.classes_) else 2, **_cost(task)}
    out |= {name: getattr(task, name) for name in _MASKS if not getattr(task, name).all()}
    # one bit per weight, those that are stored; some zeros are, so that no file makes much more than its size
    stored = est.weights_ != 0.0
    stored[::STORED] = stored[-len(task.penalty) :] = True
    if 2 * np.count_nonzero(stored) < stored.size:
        out |= {"weights_": est.weights_[stored], "nonzero": np.packbits(stored)}
    if est.vectorizer_ is not None and est.vectorizer_.n_hashed:
        out["hashed"] = True
    elif est.vectorizer_ is not None:
        out["vocabulary"] = f.checked_labels(list(est.vectorizer_.feature_names_))
    if scores is not None:
        out["basis"] = KernelFeatures(scores.kernel, scores.rows)
    return out


def _fill_in_zeros(stored: dict[str, Any], sizes: Sizes, dim: int) -> None:
    """The weights of a tagger with the zeros that the file leaves out."""
    mask = stored.pop("nonzero", None)
    if mask is None:
        return
    if mask.dtype != np.uint8 or mask.size != -(-dim // 8) or sizes["weights"] * STORED < dim:
        raise FormatError(f"the mask of the weights is not one of {dim} weights")
    nonzero = np.unpackbits(mask, count=dim).view(bool)
    if np.count_nonzero(nonzero) != sizes["weights"]:
        raise FormatError(f"there are {sizes['weights']} weights where the mask has another number")
    weights = np.zeros(dim)
    weights[nonzero] = stored["weights_"]
    stored["weights_"], sizes["weights"] = weights, dim


def _read_tagger(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    stored.pop("order")
    basis, vocabulary, hashed = (stored.pop(k, None) for k in ("basis", "vocabulary", "hashed"))
    constraints = {name: stored.pop(name) for name in ("cost", *_MASKS) if name in stored}
    d, K = sizes["d"], sizes["states"]
    height = d if basis is None else basis.n_features
    _fill_in_zeros(stored, sizes, height * K + K * K + 2 * K)
    if basis is not None and (basis.factor is not None or basis.rows.shape[1] != d):
        raise FormatError(f"the rows of the basis do not have {d} features")
    # nothing of size K^2 is allocated unless the file holds as many weights
    if K < 1 or sizes["weights"] != height * K + K * K + 2 * K:
        raise FormatError(f"{sizes['weights']} weights do not fit {K} states and {height} features")
    task = Chain(n_labels=K, n_features=height, **constraints)
    scores = vectorizer = None
    if vocabulary is not None:
        vectorizer = TokenVectorizer().set_names(vocabulary)
    elif hashed:
        vectorizer = TokenVectorizer(d)
    if basis is not None:
        scores = label_functions(task, stored["weights_"], basis.kernel, basis.rows)
    made = {"expansion_": scores, "vectorizer_": vectorizer, "task_": task}
    return _read_structured(stored, sizes) | made


_GRAPHS: Fields = {
    "n_features_in_": f.count(0, "d"),
    "n_edge_features_in_": f.count(0, "e"),
    "classes_": f.classes("classes"),
    "edges": f.of_type(str),
    "inference": f.of_type(str),
    "weights_": f.array("weights"),
    "cost": f.optional(f.array("classes", "classes")),
}


def _graph_values(est: GraphLabeler) -> dict[str, Any]:
    task = est.task_
    return {"edges": task.edges, "inference": task.method, **_cost(task)}


def _read_graphs(stored: dict[str, Any], sizes: Sizes) -> dict[str, Any]:
    options = {name: stored.pop(name, None) for name in ("edges", "inference", "cost")}
    K, d, e, n = (sizes[name] for name in ("classes", "d", "e", "weights"))
    # nothing of size K^2 is allocated unless the file holds as many weights
    if K < 1 or n < d * K + e or (e == 0 and max(1, n) < K * K):
        raise FormatError(f"{n} weights do not fit {K} labels")
    task = GraphLabeling(K, n_features=d, n_edge_features=e, **options)
    if task.dim != n:
        raise FormatError(f"{n} weights where the task has {task.dim}")
    return stored | {"task_": task}


_STRUCTURED: Fields = {
    **_ABOUT_KERNEL,
    **_STREAM,
    "task": f.of_type(str),
    "coef_": f.array("dim"),
    "kernel_features_": f.of_type(KernelFeatures, type(None)),
}
_LATENT: Fields = {
    "task": f.of_type(str),
    "coef_": f.array("dim"),
    "convex_objective_": f.of_type(float),
    "convex_lower_bound_": f.of_type(float),
    "convex_gap_": f.of_type(float),
}


def _task_name(est: Any) -> dict[str, Any]:
    return {"task": type(est.task_).__name__}


def check_task(task: Any, name: str, dim: int) -> None:
    """Refuse a caller's task that cannot be the one the weights were trained for."""
    name = shown(name).strip("'")
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
        warn_user(
            f"the weights were trained for a task of class {name}; the one given is a {type(task).__name__}.",
        )
    try:
        own = task.dim
    except Exception:  # no such attribute, or not known before setup: then it cannot be compared
        return
    if isinstance(own, int | np.integer) and own != dim:
        raise ValueError(
            f"the task has joint features of dimension {own}, but the file holds {dim} weights. Pass a task "
            "that is set up on the label set it was trained with."
        )


# -- the table of estimators -----------------------------------------------------------------------

#: what a model file can hold
SavedEstimator: TypeAlias = (
    GrammarParser
    | GraphLabeler
    | KernelSVC
    | KernelSVR
    | LatentStructuredSVM
    | LinearSVC
    | LinearSVR
    | LogisticRegression
    | MeasureSVC
    | OneClassSVM
    | OrdinalSVC
    | RankSVM
    | SequenceTagger
    | StructuredSVM
)


class Model(NamedTuple):
    """How one class of estimators is written and read."""

    cls: Any
    fields: Fields
    #: values of an estimator that are not attributes with the names of fields
    values: Callable[[Any], dict[str, Any]] = lambda est: {}
    #: attributes from the checked values of a file
    read: Callable[[dict[str, Any], Sizes], dict[str, Any]] = lambda stored, sizes: stored

    @property
    def required(self) -> list[str]:
        """Attributes without which an estimator is not fitted."""
        fields = f.attributes_of({**self.fields, **CERTIFICATE})
        return [name for name, field in fields.items() if not field.optional]

    def fitted_values(self, est: Any) -> dict[str, Any]:
        """The values of a fitted estimator, for a file."""
        return f.write_fields(est, self.fields) | self.values(est)

    def attributes(self, stored: Any) -> tuple[dict[str, Any], Sizes]:
        """The attributes that ``fit`` would have set."""
        sizes: Sizes = {}
        return self.read(f.read_fields(stored, self.fields, "the fitted part", sizes), sizes), sizes


#: the only classes that a file may name
MODELS: dict[str, Model] = {
    model.cls.__name__: model
    for model in (
        Model(GrammarParser, PARSER, parser_values, read_parser),
        Model(GraphLabeler, _GRAPHS, _graph_values, _read_graphs),
        Model(KernelSVC, _KERNEL, _kernel_values, _read_kernel_svc),
        Model(KernelSVR, _EXPANSION, _kernel_values, _read_kernel_svr),
        Model(LatentStructuredSVM, _LATENT, _task_name),
        Model(LinearSVC, {**_CLASSIFIER, **_PROOF}, read=_read_classifier),
        Model(LinearSVR, {**_REGRESSION, **_PROOF}, read=_read_linear),
        Model(LogisticRegression, {**_CLASSIFIER, **_PROOF}, read=_read_classifier),
        Model(MeasureSVC, _MEASURE, read=_read_classifier),
        Model(OneClassSVM, _ONE_CLASS, _kernel_values, _read_kernel_svr),
        Model(OrdinalSVC, _ORDINAL),
        Model(RankSVM, _RANKER),
        Model(SequenceTagger, _TAGGER, _tagger_values, _read_tagger),
        Model(StructuredSVM, _STRUCTURED, _task_name, _read_structured),
    )
}
