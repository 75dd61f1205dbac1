"""Conversion of sequences to one stacked matrix with lengths, and of labels to codes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.matrices import (
    canonical,
    check_dense,
    first_not_finite,
    is_finite,
    place_in,
    row_name,
    stacked,
)
from maxmargin.data.tokens.token_features import cut, features_of
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer
from maxmargin.estimators.structured.tokens import as_array, sequence
from maxmargin.estimators.validation import require_no_path
from maxmargin.tasks.chains.chain import Chain

Lengths = npt.NDArray[np.int64]


def check_lengths(lengths: Any, n_rows: int) -> Lengths:
    """Validate lengths: their sum must be the number of rows."""
    counts = np.asarray(lengths)
    integers = np.issubdtype(counts.dtype, np.integer) or counts.shape == (0,)
    if counts.ndim != 1 or not integers or (counts < 0).any():
        raise ValueError("lengths must be a list of nonnegative integers, one per sequence.")
    if counts.sum() != n_rows:
        raise ValueError(f"lengths add up to {counts.sum()}, but X has {n_rows} rows (tokens).")
    return counts.astype(np.int64)


def _is_matrix(x: Any) -> bool:
    return sp.issparse(x) or isinstance(x, np.ndarray)


def check_matrix(X: Any, n_features: int | None, row: Any = row_name) -> Any:
    """Validate a stacked matrix; sparse ones are sorted."""
    if sp.issparse(X):
        X = canonical(X, row=row)
    else:
        X = np.asarray(X)
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        check_dense(X, row=row)
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, but the tagger was fitted with {n_features} features."
        )
    return X


class Stacked(NamedTuple):
    """All tokens of all sequences in one matrix."""

    rows: Any
    counts: Lengths
    #: names of the features, if tokens have named features
    vectorizer: TokenVectorizer | None = None
    #: whether all tokens were plain strings (a list of lists of strings can be one sequence or many)
    strings: bool = False


def stack(
    X: Any,
    lengths: Any,
    n_features: int | None = None,
    vectorizer: TokenVectorizer | None = None,
    *,
    fitting: bool,
) -> Stacked:
    """Convert any accepted form of X to one matrix.

    If ``lengths`` is given, X is the stacked matrix. A sequence of matrices is stacked. Anything else is a
    sequence of sequences of feature dicts or strings, which ``vectorizer`` turns into rows. It learns the
    names of X if ``fitting``.
    """
    require_no_path(X)
    if lengths is not None:
        matrix = check_matrix(_one_matrix(X, n_features), n_features)
        return Stacked(matrix, check_lengths(lengths, matrix.shape[0]))
    found = _sequences(X)
    if not found:
        if fitting:
            raise ValueError("X is empty: there is nothing to learn from.")
        return Stacked(sp.csr_matrix((0, n_features or 0)), np.zeros(0, dtype=np.int64), vectorizer)
    matrices = [_is_matrix(x) for x in found]
    sizes = [
        x.shape[0] if is_matrix else len(x) for x, is_matrix in zip(found, matrices, strict=True)
    ]
    counts = np.array(sizes, dtype=np.int64)
    if True in matrices:
        name = place_in(np.cumsum(counts), "sequence", "token")
        return Stacked(check_matrix(_below(found), n_features, name), counts)
    if not fitting and vectorizer is None and any(sizes):
        raise ValueError(
            "the tagger was fitted on matrices: pass matrices, not feature dicts or strings."
        )
    strings = any(sizes) and all(isinstance(token, str) for x in found for token in x)
    matrix = _vectorized(found, vectorizer, fitting, n_features)
    _require_finite(matrix, counts, vectorizer)
    return Stacked(matrix, counts, vectorizer, strings)


def _one_matrix(X: Any, n_features: int | None) -> Any:
    """X as one matrix, which ``lengths`` requires."""
    matrix = X if sp.issparse(X) else as_array(X, "X")
    if matrix.shape in ((0,), (0, 0)):  # no tokens, so their features are not known
        return np.empty((0, n_features or 0))
    if sp.issparse(X):
        return X
    if matrix.ndim != 2 or matrix.dtype.kind not in "biufO":
        raise ValueError(
            f"with lengths=, X must be one matrix with a row per token, but it is an array of shape "
            f"{matrix.shape} and type {matrix.dtype}. Pass tokens with named features as a list of "
            "sequences, without lengths."
        )
    return sequence(matrix, 0)


def _sequences(X: Any) -> list[Any]:
    """The sequences, each a matrix or a list of tokens."""
    if isinstance(X, Mapping):
        raise TypeError(
            "X must be a list of sequences, but it is a dict. One sequence of one token is [[X]]."
        )
    if not isinstance(X, list | tuple | np.ndarray) and hasattr(X, "__array__"):
        X = as_array(X, "X")
    if sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biufO"):
        raise ValueError(
            "X is one matrix: pass the lengths of its sequences, lengths=[...], or pass [X] if it is one "
            "sequence."
        )
    if isinstance(X, np.ndarray) and X.ndim not in (1, 2, 3):
        raise ValueError(f"X is an array of shape {X.shape}: pass a list of matrices.")
    if not isinstance(X, Sequence | np.ndarray):
        raise TypeError(f"X must be a list of sequences, but it is a {type(X).__name__}.")
    _same_columns(X)
    return [sequence(x, i) for i, x in enumerate(X)]


def _same_columns(X: Any) -> None:
    """Raise ValueError if data frames have different columns: they are stacked by position."""
    names = [(i, list(x.columns)) for i, x in enumerate(X) if hasattr(x, "columns")]
    for i, own in names[1:]:
        if own != names[0][1]:
            raise ValueError(
                f"the data frames of sequences {names[0][0]} and {i} have different columns, or a different "
                f"order of columns: {names[0][1]} and {own}."
            )


def _below(found: list[Any]) -> Any:
    """The matrices, stacked. An empty list is a sequence without tokens."""
    first = next(i for i, x in enumerate(found) if _is_matrix(x))
    for i, x in enumerate(found):
        if not _is_matrix(x) and len(x):
            for t, token in enumerate(x):  # raises an error if this is not an accepted form
                features_of(token, i, t)
            raise TypeError(
                f"sequence {first} is a matrix, but sequence {i} is a list of tokens with named features: "
                "pass all of them in one form."
            )
    matrices = [x for x in found if _is_matrix(x)]
    widths = {x.shape[1] for x in matrices}
    if len(widths) > 1:
        raise ValueError(f"the sequences have different numbers of features: {sorted(widths)}.")
    if any(sp.issparse(x) for x in matrices):
        none = np.empty((0, widths.pop()))
        return stacked([x if _is_matrix(x) else none for x in found], row="token")
    return np.concatenate(matrices)


def _require_finite(matrix: Any, counts: Lengths, vectorizer: TokenVectorizer | None) -> None:
    """Raise ValueError if the value of a named feature is not finite."""
    if vectorizer is None or is_finite(matrix.data):
        return
    at = first_not_finite(matrix.data)
    row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
    place = place_in(np.cumsum(counts), "sequence", "token")(row)
    column = int(matrix.indices[at])
    feature = f"column {column}" if vectorizer.n_hashed else repr(vectorizer.feature_names_[column])
    raise ValueError(
        f"the feature {feature} is {matrix.data[at]} in {place}: features must be finite numbers."
    )


def _vectorized(
    found: list[Any], vectorizer: TokenVectorizer | None, fitting: bool, n_features: int | None
) -> sp.csr_matrix:
    """The tokens as rows, with a column for each name."""
    if vectorizer is None or not (fitting or any(len(x) for x in found)):
        return sp.csr_matrix((0, n_features or 0))
    return vectorizer.fit_transform(found) if fitting else vectorizer._rows(found)


def flatten_labels(y: Any, counts: Lengths, stacked: bool) -> list[Hashable]:
    """All labels in one list, after a check of the lengths of the sequences."""
    if y is None:
        raise ValueError("SequenceTagger requires y to be passed, but the target y is None.")
    if isinstance(y, str) or not hasattr(y, "__len__"):
        raise TypeError(
            f"y is {_short(y)}: it must be a list of label sequences, one for each sequence of X."
        )
    if stacked and len(y) == counts.sum() and not any(_is_label_list(labels) for labels in y):
        return _flat_labels([y])
    if len(y) != len(counts):
        raise ValueError(f"X has {len(counts)} sequences but y has {len(y)} label sequences.")
    for i, (labels, count) in enumerate(zip(y, counts, strict=True)):
        if (
            isinstance(labels, str)
            or not hasattr(labels, "__len__")
            or not getattr(labels, "ndim", 1)
        ):
            raise TypeError(
                f"the labels of sequence {i} are {_short(labels)}, not a list with a label per token. y must "
                "be a list of label sequences: for one sequence, pass [X] and [y]."
            )
        if len(labels) != count:
            raise ValueError(f"sequence {i} has {count} tokens but {len(labels)} labels.")
    return _flat_labels(y)


def _is_label_list(labels: Any) -> bool:
    return isinstance(labels, list) or getattr(labels, "ndim", 0) == 1


def _short(value: object) -> str:
    return f"the {type(value).__name__} {cut(value)}"


def _flat_labels(parts: Any) -> list[Hashable]:
    """Labels as plain Python values: numbers of other libraries may have different hashes."""
    flat: list[Hashable] = []
    for i, part in enumerate(parts):
        if not isinstance(part, list | tuple) and hasattr(part, "__array__"):
            part = as_array(part, f"the labels of sequence {i}").tolist()
        for t, label in enumerate(part):
            if getattr(label, "shape", None) == () and hasattr(label, "__array__"):
                label = np.asarray(label).item()
            if not isinstance(label, Hashable) or label != label:
                raise TypeError(
                    f"the label of token {t} in sequence {i} is {_short(label)}: labels must be strings, "
                    "numbers or other hashable values, or None if missing."
                )
            flat.append(label)
    return flat


def first_unlabeled(flat: list[Hashable], counts: Lengths) -> tuple[int, int] | None:
    """(sequence, token) of the first label that is None."""
    place = next((k for k, label in enumerate(flat) if label is None), None)
    if place is None:
        return None
    ends = np.cumsum(counts)
    i = int(np.searchsorted(ends, place, side="right"))
    return i, int(place - (ends[i] - counts[i]))


def flat_weights(weight: Any, n_tokens: int) -> npt.NDArray[np.float64]:
    """One multiplier per token, from a flat array or a list of arrays; ones for None."""
    if weight is None:
        return np.ones(n_tokens)
    if len(weight) != n_tokens or (n_tokens and np.ndim(weight[0]) > 0):
        weight = np.concatenate([np.asarray(part, dtype=np.float64) for part in weight])
    return np.asarray(weight, dtype=np.float64)


def label_set(labels: Iterable[Hashable]) -> list[Hashable]:
    """The label set: sorted if possible, otherwise in order of first occurrence."""
    distinct = list(dict.fromkeys(x.item() if isinstance(x, np.generic) else x for x in labels))
    try:
        return sorted(distinct)  # type: ignore[type-var]
    except TypeError:
        return distinct


def transition_masks(
    forbidden: Any, labels: list[Hashable], codes: Any, counts: Lengths
) -> tuple[Any, Any, Any]:
    """(allowed, allowed_start, allowed_stop), from ``forbidden_transitions``."""
    K = len(labels)
    if forbidden is None:
        return None, None, None
    if isinstance(forbidden, str):
        # any label may start or end a sequence: otherwise a short input may have no labeling at all
        allowed = np.zeros((K, K), dtype=bool)
        ends = np.cumsum(counts)
        inner = np.ones(max(0, len(codes) - 1), dtype=bool)
        inner[ends[(ends > 0) & (ends < len(codes))] - 1] = False
        inner &= (codes[:-1] >= 0) & (codes[1:] >= 0)  # missing labels do not count
        allowed[codes[:-1][inner], codes[1:][inner]] = True
        return allowed, None, None
    allowed = np.ones((K, K), dtype=bool)
    start, stop = np.ones(K, dtype=bool), np.ones(K, dtype=bool)
    number = {label: k for k, label in enumerate(labels)}
    for pair in forbidden:
        if not (isinstance(pair, Sequence) and len(pair) == 2 and not isinstance(pair, str)):
            raise ValueError(
                f"forbidden_transitions must contain pairs of labels, but contains {pair!r}."
            )
        for label in pair:
            if label is not None and label not in number:
                raise ValueError(
                    f"forbidden_transitions contains the label {label!r} in {pair!r}, which does not occur "
                    f"in y. The labels are {_some(labels)}; None is the start or the end of a sequence."
                )
        a, b = pair
        if a is None and b is None:
            raise ValueError(
                "forbidden_transitions contains (None, None), which has no label. (None, b) forbids b as the "
                "first label, (a, None) forbids a as the last."
            )
        if a is None:
            start[number[b]] = False
        elif b is None:
            stop[number[a]] = False
        else:
            allowed[number[a], number[b]] = False
    return allowed, start, stop


def _some(labels: list[Hashable]) -> str:
    shown = ", ".join(repr(label) for label in labels[:20])
    return shown if len(labels) <= 20 else f"{shown} and {len(labels) - 20} more"


def check_transitions(task: Chain, codes: Any, counts: Lengths, labels: list[Hashable]) -> None:
    """Raise ValueError if a training sequence contains a transition of ``forbidden_transitions``."""
    if not task.penalty.any():  # all are allowed
        return
    for i, y in enumerate(by_sequence(codes, counts)):
        if not len(y):
            continue
        for at, code, mask, word in (
            ("token 0", y[0], task.allowed_start, "start"),
            (f"token {len(y) - 1}", y[-1], task.allowed_stop, "end"),
        ):
            if code >= 0 and not mask[code]:
                pair = (None, labels[code]) if word == "start" else (labels[code], None)
                raise ValueError(
                    f"sequence {i} has the label {labels[code]!r} at its {word} ({at}), but "
                    f"forbidden_transitions contains {pair!r}. Correct the label, leave out the sequence, or "
                    "allow the transition."
                )
        known = (y[:-1] >= 0) & (y[1:] >= 0)
        bad = np.flatnonzero(known & ~task.allowed[y[:-1], y[1:]])
        if len(bad):
            a, b = labels[y[bad[0]]], labels[y[bad[0] + 1]]
            raise ValueError(
                f"sequence {i} goes from the label {a!r} at token {bad[0]} to {b!r} at token {bad[0] + 1}, "
                f"but forbidden_transitions contains {(a, b)!r}. Correct the labels, leave out the sequence, "
                "or allow the transition."
            )


def cost_matrix(cost: Any, labels: list[Hashable]) -> Any:
    """A (K, K) cost matrix from None, a dict of label costs, or a matrix."""
    K = len(labels)
    if cost is None:
        return None
    if isinstance(cost, Mapping):
        unknown = [label for label in cost if label not in labels]
        if unknown:
            raise ValueError(f"cost contains labels that do not occur in y: {unknown!r}.")
        factors = np.array([float(cost.get(label, 1.0)) for label in labels])
        return factors[:, None] * (1.0 - np.eye(K))
    matrix = np.asarray(cost, dtype=np.float64)
    if matrix.shape != (K, K):
        raise ValueError(
            f"cost has shape {matrix.shape}, but there are {K} labels: give a ({K}, {K}) matrix in "
            "the order of the sorted labels, or a dict from label to cost."
        )
    return matrix


def by_sequence(flat: Any, counts: Lengths) -> list[Any]:
    """Split a stacked array into one part per sequence."""
    ends = np.cumsum(counts).tolist()  # Python's numbers slice faster than NumPy's
    return [flat[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]


def label_codes(flat: Sequence[Hashable], classes: Sequence[Hashable]) -> npt.NDArray[np.int64]:
    """The number of each label among the classes; -1 for a missing one."""
    number: dict[Any, int] = {label: k for k, label in enumerate(classes)}
    return np.array([-1 if label is None else number[label] for label in flat], dtype=np.int64)
