"""Probabilities of taggers with the logistic loss: of labels, and of whole labelings."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array
from maxmargin.estimators.parameters import AvailableIf
from maxmargin.estimators.structured import sequences as seq
from maxmargin.estimators.structured.decision import ChainDecision, in_terms_of_labels
from maxmargin.tasks.chains.log_loss import (
    log_probabilities_stacked,
    log_z_stacked,
    marginals_stacked,
)
from maxmargin.tasks.chains.second_order import expand


def _no_probabilities(tagger: Any) -> str:
    """What to do if the loss is another one."""
    if tagger.loss == "logistic":
        return ""
    return (
        f"a tagger with loss={tagger.loss!r} has scores, and no probabilities: use loss='logistic', or "
        "calibrate and predict_confidence."
    )


_logistic_only = AvailableIf.decorator(_no_probabilities)


class ChainProbabilities(ChainDecision):
    """The distribution over labelings, p(y) ~ exp(score of y)."""

    loss: str

    @overload
    def predict_marginals(self, X: Any, lengths: None = None) -> list[Array]: ...
    @overload
    def predict_marginals(self, X: Any, lengths: npt.ArrayLike) -> Array: ...
    @_logistic_only
    def predict_marginals(self, X: Any, lengths: Any = None) -> Array | list[Array]:
        """Predict the probability of each label at each token. Requires ``loss="logistic"``.

        Parameters
        ----------
        X : as for ``fit``
            Sequences.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.

        Returns
        -------
        list of arrays of shape (n_tokens, n_labels)
            Columns are in the order of ``classes_``, and rows sum to 1. If ``lengths`` was given, one stacked
            array. The most probable label of a token can differ from that of ``predict``, which returns the
            most probable labeling of the sequence.

        Examples
        --------
        >>> from maxmargin import SequenceTagger
        >>> X, y = [[["red"], ["sky"]]] * 20, [["A", "N"]] * 20
        >>> tagger = SequenceTagger(loss="logistic").fit(X, y)
        >>> tagger.predict_marginals([[["red"], ["sky"]]])[0].round(1)
        array([[0.9, 0.1],
               [0.1, 0.9]])
        """
        rows, counts = self._stack(X, lengths)
        flat = self._flat_marginals(rows, counts)
        return flat if lengths is not None else seq.by_sequence(flat, counts)

    @_logistic_only
    def log_probability(self, X: Any, y: Any, lengths: Any = None) -> Array:
        """Return the log probability of labelings. Requires ``loss="logistic"``.

        Parameters
        ----------
        X, y : as for ``fit``
            Sequences and their labels.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.

        Returns
        -------
        array of shape (n_sequences,)
            The logarithm of the probability of the labels of each sequence; -inf if a label did not occur in
            the training data, or if a transition is forbidden.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin import SequenceTagger
        >>> tagger = SequenceTagger(loss="logistic").fit([[["red"], ["sky"]]], [["A", "N"]])
        >>> labelings = [["A", "A"], ["A", "N"], ["N", "A"], ["N", "N"]]
        >>> p = np.exp(tagger.log_probability([[["red"], ["sky"]]] * 4, labelings))
        >>> bool(p.argmax() == 1), bool(np.isclose(p.sum(), 1.0))
        (True, True)
        """
        X, y = self._loaded(X, y)
        rows, counts = self._stack(X, lengths)
        flat = seq.flatten_labels(y, counts, stacked=lengths is not None)
        missing = seq.first_unlabeled(flat, counts)
        if missing is not None:
            raise ValueError(
                f"sequence {missing[0]} has no label (None) at token {missing[1]}: log_probability is about "
                "complete labelings. predict_marginals has the probabilities of single labels."
            )
        number = {label: k for k, label in enumerate(self.classes_)}
        codes = np.array([number.get(label, -1) for label in flat], dtype=np.int64)
        unknown = np.array([(own < 0).any() for own in seq.by_sequence(codes, counts)], dtype=bool)
        states = np.maximum(codes, 0)
        if self.task_.n_labels != len(self.classes_):
            parts = seq.by_sequence(states, counts)
            states = np.concatenate(
                [expand(own, len(self.classes_)) for own in [*parts, states[:0]]]
            )
        with in_terms_of_labels():
            found = log_probabilities_stacked(*self._scorer(), rows, counts, states)
        return np.where(unknown, -np.inf, found)

    def _flat_marginals(self, rows: Any, counts: seq.Lengths) -> Array:
        """Marginals of labels for all tokens."""
        return self._by_label(marginals_stacked, rows, counts).sum(axis=1)

    def _confidence(self, rows: Any, counts: seq.Lengths) -> Array:
        if self.loss != "logistic" or getattr(self, "calibration_", None) is not None:
            return super()._confidence(rows, counts)
        labels = self._codes(rows, counts)
        return self._flat_marginals(rows, counts)[np.arange(len(labels)), labels]

    def _score_shifts(self, rows: Any, counts: seq.Lengths) -> Array:
        """log Z of each sequence."""
        if advice := _no_probabilities(self):
            raise AttributeError(advice)
        with in_terms_of_labels():
            return log_z_stacked(*self._scorer(), rows, counts)
