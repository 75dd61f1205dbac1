"""``partial_fit`` and ``verify`` of SequenceTagger."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from maxmargin.core.engine import Engine
from maxmargin.data.tokens.name_columns import TokenRows
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.structured import sequences as seq
from maxmargin.estimators.structured.decision import ChainDecision
from maxmargin.estimators.structured.stream import StructuredStream, check_streamable
from maxmargin.estimators.structured.tagged_data import TaggedData
from maxmargin.estimators.structured.tagger_options import check_options
from maxmargin.estimators.validation import loaded
from maxmargin.risks.structured.risk import TaskRisk


class ChainStream(StructuredStream, ChainDecision):
    """Adds ``partial_fit`` and ``verify`` to a tagger that defines ``_tagged_data``."""

    def _tagged_data(
        self, rows: Any, counts: Any, codes: Any, classes: Any, weight: Any, token_weight: Any
    ) -> TaggedData:
        raise NotImplementedError

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,
        lengths: Any = None,
        sample_weight: Any = None,
        token_weight: Any = None,
    ) -> Self:
        """Update the tagger with the next sequences of a stream.

        At most ``max_support`` sequences are kept, the newest ones, with the labelings that inference found
        for them. Older ones are merged into one cutting plane. After every call, ``lower_bound_`` is a lower
        bound of the optimum over *all sequences seen so far*. An upper bound requires another pass over the
        sequences: until :meth:`verify` is called, ``objective_`` and ``gap_`` are infinite, ``converged_`` is
        False and ``certificate_`` is "lower_only".

        Every sequence is visited about five times. The weights are an average over the stream. They are not
        as good as those of ``fit``, which visits all sequences until the gap is small. Shuffle sequences that
        are sorted, and pass a few hundred or more at a time. A call of ``fit`` ends the stream; after
        ``fit``, a stream begins with weights of zero.

        Parameters
        ----------
        X : as for ``fit``
            Sequences. Names of features that did not occur before get new weights. With ``n_hashed``, the
            number of weights does not grow.
        y : list of label sequences
            Labels.
        classes : list, optional
            All labels that occur in the stream. Required in the first call, unless ``fit`` was called before:
            then its labels are the default.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C. A sample is a sequence.
        token_weight : list of arrays, or flat array, optional
            Per-token multipliers of the cost.

        Returns
        -------
        self
            The estimator itself.

        Examples
        --------
        >>> from maxmargin import SequenceTagger
        >>> first = [[["w=the"], ["w=cat"], ["w=sat"]]], [["DET", "NOUN", "VERB"]]
        >>> second = [[["w=a"], ["w=dog"], ["w=ran"]]], [["DET", "NOUN", "VERB"]]
        >>> tagger = SequenceTagger(max_support=1)
        >>> for X, y in (first, second):
        ...     tagger = tagger.partial_fit(X, y, classes=["DET", "NOUN", "VERB"])
        >>> tagger.predict([[["w=the"], ["w=dog"], ["w=sat"]]])
        [['DET', 'NOUN', 'VERB']]
        >>> tagger.n_seen_, tagger.n_support_, tagger.certificate_
        (2, 1, 'lower_only')
        >>> tagger.verify([first, second]).certificate_
        'exact'
        """
        check_parameters(self)
        _check_tagger(self)
        first, labels = not hasattr(self, "_stream"), _stream_classes(self, classes)
        X, y, sample_weight = loaded(X, y, sample_weight)
        found = _stack_more(self, X, lengths)
        if not first and found.strings and not self._string_tokens:
            raise ValueError(
                "the tokens of X are strings, but the stream began with tokens that are lists of strings or "
                "dicts. For one sequence, pass [X]. A token with a single feature is a list with one string."
            )
        data = self._data_of(found, y, labels, token_weight, lengths is not None)
        task = data.task
        if not first:
            _check_same_task(self.task_, task)
        risk = data.risk(sample_weight, self.rescaling, None)
        stream = self._open(task.dim, len(task.penalty))
        fitted = {
            "classes_": labels,
            "vectorizer_": found.vectorizer,
            "_string_tokens": found.strings if first else self._string_tokens,
            "n_features_in_": found.rows.shape[1],
            "task_": task,
            "expansion_": None,
        }
        self._learn(stream, risk)
        self.__dict__.update(fitted)
        self.weights_ = stream.average.copy()
        return self

    def verify(
        self,
        X: Any,
        y: Any = None,
        lengths: Any = None,
        sample_weight: Any = None,
        token_weight: Any = None,
    ) -> Self:
        """Complete the certificate of a stream by one exact pass over its sequences.

        Nothing is learned. Afterwards ``objective_`` is the objective over all sequences, and
        ``certificate_`` is "exact". The caller is responsible for passing the same sequences; only their
        number and their total weight are compared.

        Parameters
        ----------
        X : as for ``fit``, or iterable of batches
            All sequences that ``partial_fit`` has seen, in any order. An iterable yields ``(X, y)`` or ``(X,
            y, sample_weight)``.
        y : list of label sequences, optional
            Labels, if ``X`` is not an iterable of batches.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.
        token_weight : list of arrays, or flat array, optional
            Per-token multipliers of the cost.

        Returns
        -------
        self
            The estimator itself.

        Raises
        ------
        ValueError
            The number or the total weight of the sequences is not that of the stream. The certificate does
            not change.
        """
        return self._verify(X, y, sample_weight, token_weight, lengths)

    def _stream_risk(
        self,
        engine: Engine | None,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        token_weight: Any = None,
        lengths: Any = None,
    ) -> TaskRisk:
        X, y, sample_weight = loaded(X, y, sample_weight)
        found = seq.stack(X, lengths, self.n_features_in_, self.vectorizer_, fitting=False)
        if isinstance(found.rows, TokenRows):
            found = found._replace(rows=found.rows.matrix())
        data = self._data_of(found, y, self.classes_, token_weight, lengths is not None)
        return data.risk(sample_weight, self.rescaling, engine)

    def _data_of(
        self, found: seq.Stacked, y: Any, classes: list[Any], token_weight: Any, stacked: bool
    ) -> TaggedData:
        flat = seq.flatten_labels(y, found.counts, stacked=stacked)
        if not flat:
            raise ValueError("all sequences are empty: there is nothing to learn from.")
        check_options(self, flat, found.counts, token_weight)  # type: ignore[arg-type]
        _check_labels(flat, found.counts, classes)
        codes = seq.label_codes(flat, classes)
        return self._tagged_data(found.rows, found.counts, codes, classes, None, token_weight)


def _check_tagger(tagger: Any) -> None:
    """Raise ValueError for parameters of a SequenceTagger that streams do not support."""
    check_streamable(
        tagger,
        {
            "loss": tagger.loss == "logistic",
            "kernel": tagger.kernel is not None,
            "prior": tagger.prior is not None,
            "partial": tagger.partial is not None,
            # these two require all sequences
            "min_count": tagger.min_count != 1,
            "forbidden_transitions": isinstance(tagger.forbidden_transitions, str),
        },
    )


def _stream_classes(tagger: Any, classes: Any) -> list[Any]:
    """The labels of a stream."""
    first = not hasattr(tagger, "_stream")
    if classes is None and first and not hasattr(tagger, "classes_"):
        raise ValueError("classes must be passed on the first call to partial_fit.")
    if classes is None:
        return list(tagger.classes_)
    found = seq.label_set(classes)
    if not found or None in found:
        raise ValueError(f"classes={classes!r}: give all labels of the stream, which are not None.")
    if not first and found != tagger.classes_:
        raise ValueError(
            f"classes={classes!r} are not those of the first call to partial_fit, {tagger.classes_}."
        )
    return found


def _stack_more(tagger: Any, X: Any, lengths: Any) -> seq.Stacked:
    """The next sequences of a stream as one matrix. New names of features get new columns at the end."""
    if not hasattr(tagger, "_stream"):
        names = TokenVectorizer(tagger.n_hashed, tagger.min_count)
        return seq.stack(X, lengths, vectorizer=names, fitting=True)
    known: TokenVectorizer | None = tagger.vectorizer_
    width = tagger.n_features_in_ if known is None else None
    own = TokenVectorizer(None if known is None else known.n_hashed)
    found = seq.stack(X, lengths, width, own, fitting=True)
    if (found.vectorizer is None) != (known is None):
        forms = ("matrices", "tokens with named features")
        raise ValueError(
            f"the sequences are {forms[known is None]}, but the stream began with {forms[known is not None]}."
        )
    if known is None or known.n_hashed:
        return found._replace(vectorizer=known)
    places = dict(known.vocabulary_)
    columns = np.array([places.setdefault(name, len(places)) for name in own.feature_names_])
    rows, vectorizer = found.rows, known
    if len(places) > len(known.feature_names_):  # a copy: an error must not change the tagger
        vectorizer = TokenVectorizer().set_names(list(places))
    indices = columns[rows.indices].astype(rows.indices.dtype) if rows.nnz else rows.indices
    rows = sp.csr_matrix((rows.data, indices, rows.indptr), (rows.shape[0], len(places)))
    rows.sort_indices()
    return found._replace(rows=rows, vectorizer=vectorizer)


def _check_labels(flat: list[Any], counts: seq.Lengths, classes: list[Any]) -> None:
    """Raise ValueError if a label is not one of the classes."""
    known = set(classes)
    unknown = next((k for k, label in enumerate(flat) if label not in known), None)
    if unknown is not None:
        i = int(np.searchsorted(np.cumsum(counts), unknown, side="right"))
        raise ValueError(
            f"sequence {i} has the label {flat[unknown]!r}, which is not one of the classes {classes} of the "
            "first call to partial_fit. Pass all labels of the stream as classes in the first call."
        )


def _check_same_task(known: Any, task: Any) -> None:
    """Raise ValueError if costs, transition constraints or the order changed."""
    same = known.n_labels == task.n_labels and all(
        np.array_equal(getattr(known, name), getattr(task, name)) for name in ("cost", "penalty")
    )
    if not same:
        raise ValueError(
            "cost, forbidden_transitions or order changed in the middle of a stream, so the bounds would "
            "belong to no problem. Start a new stream with a clone."
        )
