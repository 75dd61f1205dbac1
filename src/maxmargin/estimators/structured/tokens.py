"""Input validation of one sequence: a matrix of numbers, or tokens with named features.

The accepted forms of a sequence are defined here, those of a token with named features in
:mod:`maxmargin.data.tokens.token_features`. Every error names the sequence and the token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.data.tokens.token_features import cut
from maxmargin.estimators.validation import is_path

_FORMS = (
    "A sequence is a matrix with a row per token, or a list of tokens; a token is a dict of features, a list "
    "of strings, or a string."
)


def as_array(x: Any, what: str) -> npt.NDArray[Any]:
    """Convert a data frame or a tensor of another library to a NumPy array."""
    try:
        return np.asarray(x)
    except Exception as error:  # for example a tensor on a GPU, or one that requires a gradient
        raise TypeError(
            f"{what} is a {type(x).__name__} that NumPy cannot read: {error}"
        ) from error


def sequence(x: Any, i: int) -> Any:
    """One sequence: a 2-D array or sparse matrix of numbers, or a list of tokens with named features."""
    if sp.issparse(x):
        return x
    if is_path(x):
        raise TypeError(
            f"sequence {i} of X is the string {cut(x)}, not a list of tokens. For one sequence, pass [X], "
            f"and [y] in fit. Split strings into tokens first. {_FORMS}"
        )
    if isinstance(x, Mapping):
        raise TypeError(
            f"sequence {i} of X is a dict, which is one token, not a list of tokens. X must be a list of "
            f"sequences: for one sequence, pass [X], and [y] in fit. {_FORMS}"
        )
    if not isinstance(x, np.ndarray | list | tuple) and hasattr(x, "__array__"):
        x = as_array(x, f"sequence {i} of X")
    if isinstance(x, np.ndarray):
        return _from_array(x, i)
    if not isinstance(x, Iterable):
        raise TypeError(f"sequence {i} of X is a {type(x).__name__}. {_FORMS}")
    tokens = list(x)
    if tokens and _is_row(tokens[0]):
        return _from_rows(tokens, i)
    return tokens


def _from_array(x: npt.NDArray[Any], i: int) -> Any:
    numbers = x.dtype.kind in "biuf"
    if x.shape in ((0,), (0, 0)):  # no tokens, so their features are not known
        return []
    if x.ndim == 2 and x.dtype.kind not in "US":
        return x if numbers else _as_numbers(x, i)
    if x.ndim == 1 and not numbers:
        return sequence(x.tolist(), i)
    if x.ndim == 2:
        return x.tolist()
    raise ValueError(
        f"sequence {i} of X is an array of shape {x.shape}, but must be a matrix with one row per token. If "
        "X is one sequence, pass [X], and [y] in fit."
    )


def _as_numbers(x: npt.NDArray[Any], i: int) -> npt.NDArray[np.float64]:
    """Convert a matrix of objects, such as a data frame whose columns have different types."""
    try:
        return x.astype(np.float64)
    except (TypeError, ValueError) as error:
        t, j = next(
            (t, j)
            for t, row in enumerate(x)
            for j, value in enumerate(row)
            if not _is_number(value)
        )
        raise TypeError(
            f"sequence {i} of X is a matrix with {cut(x[t, j])} at token {t}, column {j}, which is not a "
            "number. For features that are strings, pass tokens as dicts (for a data frame: "
            "frame.to_dict('records'))."
        ) from error


def _is_number(value: object) -> bool:
    if isinstance(value, str | bytes):  # strings of NumPy have a shape, too
        return False
    return isinstance(value, Real | np.bool_) or (
        getattr(value, "shape", None) == () and hasattr(value, "__array__")
    )


def _is_row(token: object) -> bool:
    """Whether a token is a row of numbers."""
    if isinstance(token, np.ndarray) or (
        hasattr(token, "__array__") and not isinstance(token, np.generic)
    ):
        array = as_array(token, "a token")
        return array.ndim == 1 and array.dtype.kind in "biuf" and array.size > 0
    return isinstance(token, list | tuple) and len(token) > 0 and _is_number(token[0])


def _from_rows(tokens: list[Any], i: int) -> npt.NDArray[np.float64]:
    """Stack rows of numbers."""
    width = len(tokens[0])
    for t, token in enumerate(tokens):
        if not _is_row(token) or not all(map(_is_number, token)):
            raise TypeError(
                f"token 0 of sequence {i} is a row of numbers, but token {t} is {cut(token)}: rows must "
                "contain only numbers. Names of features are strings; numbers with names are a dict "
                "{name: value}."
            )
        if len(token) != width:
            raise ValueError(
                f"token 0 of sequence {i} has {width} numbers, but token {t} has {len(token)}: all tokens "
                "must have the same number of features. (If the numbers are names of features, make them "
                "strings.)"
            )
    return np.array([np.asarray(token, dtype=np.float64) for token in tokens])
