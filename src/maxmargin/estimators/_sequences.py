"""Sequences as users have them, turned into one stacked matrix with lengths, and label alphabets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.feature_extraction import DictVectorizer

from maxmargin.core.matrices import (
    canonical,
    check_dense,
    first_not_finite,
    is_finite,
    place_in,
    row_name,
    stacked,
)

Lengths = npt.NDArray[np.int64]


def check_lengths(lengths: Any, n_rows: int) -> Lengths:
    """Lengths that add up to the rows."""
    counts = np.asarray(lengths)
    if counts.ndim != 1 or not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise ValueError("lengths must be a list of non-negative integers, one per sequence.")
    if counts.sum() != n_rows:
        raise ValueError(f"lengths add up to {counts.sum()}, but X has {n_rows} rows (tokens).")
    return counts.astype(np.int64)


def _is_matrix(x: Any) -> bool:
    return sp.issparse(x) or (isinstance(x, np.ndarray) and x.ndim == 2)


def _check_matrix(X: Any, n_features: int | None, row: Any = row_name) -> Any:
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


def _as_mapping(token: Any) -> Mapping[str, Any]:
    if isinstance(token, Mapping):
        return token
    if isinstance(token, str):
        return {token: 1.0}
    if isinstance(token, Iterable):
        return dict.fromkeys(token, 1.0)
    raise TypeError(
        f"a token must be a dict of features, a list of strings or a string; found a {type(token).__name__}. "
        "For numeric features pass one matrix per sequence."
    )


def stack(
    X: Any, lengths: Any, n_features: int | None, vectorizer: DictVectorizer | None, fitting: bool
) -> tuple[Any, Lengths, DictVectorizer | None]:
    """(stacked matrix, lengths, vectorizer) from any accepted form of X.

    ``lengths`` given: X is the stacked matrix. A sequence of matrices is stacked. Anything else is
    a sequence of sequences of feature dicts or strings, vectorised by scikit-learn's
    DictVectorizer, which is fitted when ``fitting``.
    """
    if lengths is not None:
        matrix = _check_matrix(X, n_features)
        return matrix, check_lengths(lengths, matrix.shape[0]), None
    if _is_matrix(X):
        raise ValueError("X is one matrix: say where its sequences end with lengths=[...].")
    if not isinstance(X, Sequence | np.ndarray):
        raise TypeError(f"X must be a list of sequences; it is a {type(X).__name__}.")
    if len(X) == 0:
        if fitting:
            raise ValueError("X is empty: there is nothing to learn from.")
        return sp.csr_matrix((0, n_features or 0)), np.zeros(0, dtype=np.int64), vectorizer
    counts = np.array([x.shape[0] if _is_matrix(x) else len(x) for x in X], dtype=np.int64)
    if all(_is_matrix(x) for x in X):
        widths = {x.shape[1] for x in X}
        if len(widths) > 1:
            raise ValueError(f"the sequences have different numbers of features: {sorted(widths)}.")
        name = place_in(np.cumsum(counts), "sequence", "token")
        sparse = any(sp.issparse(x) for x in X)
        whole = stacked(list(X), row="token") if sparse else np.concatenate(X)
        return _check_matrix(whole, n_features, name), counts, None
    tokens = (_as_mapping(token) for x in X for token in x)
    if fitting:
        vectorizer = DictVectorizer(sparse=True, sort=True)
        matrix = vectorizer.fit_transform(tokens)
    elif vectorizer is None:
        raise ValueError(
            "the tagger was fitted on matrices: pass matrices, not feature dicts or strings."
        )
    elif counts.sum() == 0:
        matrix = sp.csr_matrix((0, len(vectorizer.feature_names_)))
    else:
        matrix = vectorizer.transform(tokens)
    if not is_finite(matrix.data):
        at = first_not_finite(matrix.data)
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        place = place_in(np.cumsum(counts), "sequence", "token")(row)
        feature = vectorizer.feature_names_[int(matrix.indices[at])]
        raise ValueError(
            f"the feature {feature!r} is {matrix.data[at]} in {place}: features must be finite numbers."
        )
    return matrix, counts, vectorizer


def flatten_labels(y: Any, counts: Lengths, stacked: bool) -> list[Hashable]:
    """All labels in one list, checked against the lengths of the sequences."""
    if stacked and len(y) == counts.sum():
        return list(y)
    if len(y) != len(counts):
        raise ValueError(f"X has {len(counts)} sequences but y has {len(y)} label sequences.")
    flat: list[Hashable] = []
    for i, (labels, count) in enumerate(zip(y, counts, strict=True)):
        if len(labels) != count:
            raise ValueError(f"sequence {i} has {count} tokens but {len(labels)} labels.")
        flat.extend(labels)
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
    """One factor per token, from a flat array or a list of arrays; ones for None."""
    if weight is None:
        return np.ones(n_tokens)
    if len(weight) != n_tokens or (n_tokens and np.ndim(weight[0]) > 0):
        weight = np.concatenate([np.asarray(part, dtype=np.float64) for part in weight])
    return np.asarray(weight, dtype=np.float64)


def alphabet(labels: Iterable[Hashable]) -> list[Hashable]:
    """Distinct labels, sorted where they can be, else in order of first use."""
    distinct = list(dict.fromkeys(x.item() if isinstance(x, np.generic) else x for x in labels))
    try:
        return sorted(distinct)  # type: ignore[type-var]
    except TypeError:
        return distinct


def transition_masks(
    forbidden: Any, labels: list[Hashable], codes: Any, counts: Lengths
) -> tuple[Any, Any, Any]:
    """(allowed, allowed_start, allowed_stop) from the user's ``forbidden_transitions``."""
    K = len(labels)
    if forbidden is None:
        return None, None, None
    if isinstance(forbidden, str):
        if forbidden != "unseen":
            raise ValueError(
                f"forbidden_transitions={forbidden!r}: give pairs of labels, 'unseen' or None."
            )
        # borders stay free: else an input shorter than all training sequences may have no label at all
        allowed = np.zeros((K, K), dtype=bool)
        ends = np.cumsum(counts)
        inner = np.ones(max(0, len(codes) - 1), dtype=bool)
        inner[ends[(ends > 0) & (ends < len(codes))] - 1] = False
        inner &= (codes[:-1] >= 0) & (codes[1:] >= 0)  # a missing label shows nothing
        allowed[codes[:-1][inner], codes[1:][inner]] = True
        return allowed, None, None
    allowed = np.ones((K, K), dtype=bool)
    start, stop = np.ones(K, dtype=bool), np.ones(K, dtype=bool)
    number = {label: k for k, label in enumerate(labels)}
    for pair in forbidden:
        if not (isinstance(pair, Sequence) and len(pair) == 2 and not isinstance(pair, str)):
            raise ValueError(f"forbidden_transitions must hold pairs of labels; found {pair!r}.")
        a, b = pair
        # labels that do not occur in the training data cannot be predicted: nothing to forbid
        if a is None and b in number:
            start[number[b]] = False
        elif b is None and a in number:
            stop[number[a]] = False
        elif a in number and b in number:
            allowed[number[a], number[b]] = False
    return allowed, start, stop


def cost_matrix(cost: Any, labels: list[Hashable]) -> Any:
    """(K, K) costs from None, a dict of label costs, or a matrix."""
    K = len(labels)
    if cost is None:
        return None
    if isinstance(cost, Mapping):
        unknown = [label for label in cost if label not in labels]
        if unknown:
            raise ValueError(f"cost names labels that do not occur in y: {unknown!r}.")
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
    """What is stacked, in one part per sequence."""
    ends = np.cumsum(counts)
    return [flat[end - count : end] for end, count in zip(ends, counts, strict=True)]
