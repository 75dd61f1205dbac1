"""The arguments of ``SequenceTagger.fit`` as arrays: sequences in memory, or a data set on disk."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from maxmargin.data.columns import chunks
from maxmargin.data.dataset import Dataset
from maxmargin.data.mapped import mapped_rows
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer
from maxmargin.estimators.structured import sequences as seq
from maxmargin.estimators.validation import loaded, require_one_weight


class TaggerInput(NamedTuple):
    """All tokens in one matrix, with the codes of their labels (-1: missing)."""

    stacked: seq.Stacked
    #: the labels, if they are in memory
    flat: list[Hashable]
    codes: npt.NDArray[Any]
    classes: list[Hashable]
    sample_weight: Any


class Reading(Protocol):
    """The parameters of a tagger on which the form of its data depends."""

    n_hashed: int | None
    min_count: int
    kernel: Any
    rescaling: Literal["margin", "slack"]


def tagger_input(tagger: Reading, X: Any, y: Any, lengths: Any, sample_weight: Any) -> TaggerInput:
    """Validate and convert sequences, or map a data set of sequences."""
    if isinstance(X, Dataset) and X.ragged and X.y is not None and X.codes is not None:
        for name, value in (("y", y), ("lengths", lengths)):
            if value is not None:
                what = "labels" if name == "y" else "sequences"
                raise ValueError(
                    f"{name} is given, but the data set has {what} of its own: leave {name} out."
                )
        return _from_disk(tagger, X, sample_weight)
    vocabulary = X if isinstance(X, Dataset) else None
    X, y, sample_weight = loaded(X, y, sample_weight)
    names = TokenVectorizer(tagger.n_hashed, tagger.min_count)
    stacked = with_vocabulary(
        seq.stack(X, lengths, vectorizer=names, fitting=True), vocabulary, tagger
    )
    flat = seq.flatten_labels(y, stacked.counts, stacked=lengths is not None)
    classes = seq.label_set(label for label in flat if label is not None)
    return TaggerInput(stacked, flat, seq.label_codes(flat, classes), classes, sample_weight)


def _from_disk(tagger: Reading, data: Dataset, sample_weight: Any) -> TaggerInput:
    require_one_weight(sample_weight, data.weight)
    if data.weight is not None:
        sample_weight = np.asarray(data.weight)
    rows: Any = None
    if tagger.kernel is None and tagger.rescaling == "margin":
        rows = mapped_rows(data)
    if rows is None:
        rows = seq.check_matrix(data.stacked(0, len(data))[0], None)
    stacked = with_vocabulary(seq.Stacked(rows, data.lengths(0, len(data))[1]), data, tagger)
    assert data.codes is not None
    assert data.classes is not None
    codes = np.empty(data.shape[0], dtype=np.int32)
    for lo, hi in chunks(len(codes)):
        codes[lo:hi] = data.codes[lo:hi]
    # as with labels in memory: those that occur, as plain values
    return TaggerInput(stacked, [], codes, data.classes.tolist(), sample_weight)


def with_vocabulary(stacked: seq.Stacked, data: Dataset | None, tagger: Any) -> seq.Stacked:
    """Sequences of a data set with the names of its features."""
    vectorizer = None if data is None else data.vectorizer
    if data is None or vectorizer is None:
        return stacked
    for name, default in (("n_hashed", None), ("min_count", 1)):
        ours, theirs = getattr(tagger, name), getattr(vectorizer, name)
        if ours not in (default, theirs):
            raise ValueError(
                f"{name}={ours}, but the data set was written with {name}={theirs}: pass it to "
                "maxmargin.data.write_sequences, and leave it out here."
            )
    return stacked._replace(vectorizer=vectorizer, strings=data.string_tokens)


def check_vocabulary(X: Any, vectorizer: TokenVectorizer | None) -> None:
    """Raise ValueError if the columns of a data set have other names than those of a tagger."""
    theirs = X.vectorizer if isinstance(X, Dataset) else None
    if theirs is None:
        return
    same = vectorizer is not None and vectorizer.n_hashed == theirs.n_hashed
    if same and vectorizer is not None and theirs.n_hashed is None:
        same = vectorizer.feature_names_ == theirs.feature_names_
    if not same:
        raise ValueError(
            "the data set has another vocabulary than the tagger. Write it with "
            "maxmargin.data.write_sequences(..., vectorizer=tagger.vectorizer_)."
        )
