"""The weights of a tagger by feature name and label, as the start or the center of a prior of another one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NamedWeights:
    """Weights of a tagger whose features and states (labels, or pairs of them) have names."""

    #: names of the features; None if they are columns of matrices
    features: tuple[Hashable, ...] | None
    states: tuple[Hashable, ...]
    #: weights of the features, [feature, state]
    coef: Array
    #: scores of neighboring states, [from, to]
    transitions: Array
    starts: Array
    stops: Array

    def __repr__(self) -> str:
        return f"<weights of {len(self.coef)} features and {len(self.states)} states>"

    def aligned(
        self,
        features: Sequence[Hashable] | None,
        n_features: int,
        states: Sequence[Hashable],
        parameter: str,
    ) -> Array:
        """The flat weights of a tagger with these features and states; 0 for names that are new.
        ``parameter`` is what errors are about."""
        if (features is None) != (self.features is None):
            kinds = "names", "columns of matrices"
            was, now = kinds if features is None else kinds[::-1]
            raise ValueError(
                f"{parameter}: the features of the earlier tagger are {was}, those of this one are {now}, so "
                "its weights cannot be assigned. Pass tokens in the same form."
            )
        if self.features is None and len(self.coef) != n_features:
            raise ValueError(
                f"{parameter}: the earlier tagger has {len(self.coef)} features and X has {n_features}. "
                "Columns without names cannot be matched: pass tokens as dicts or lists of strings."
            )
        coef = np.zeros((n_features, len(states)))
        here, there = _common(states, self.states)
        if not len(here):
            raise ValueError(
                f"{parameter}: the earlier tagger has no label in common with this one (its first label is "
                f"{self.states[0]!r}, here it is {states[0]!r}), so its weights cannot be assigned. "
                "Use the same labels, and the same order of the chain."
            )
        if features is None or self.features is None:
            coef[:, here] = self.coef[:, there]
        else:
            rows, old = _common(features, self.features)
            coef[np.ix_(rows, here)] = self.coef[np.ix_(old, there)]
        transitions = np.zeros((len(states), len(states)))
        transitions[np.ix_(here, here)] = self.transitions[np.ix_(there, there)]
        ends = np.zeros((2, len(states)))
        ends[:, here] = np.stack([self.starts, self.stops])[:, there]
        return np.concatenate([coef.ravel(), transitions.ravel(), ends.ravel()])


def feature_names(vectorizer: TokenVectorizer) -> tuple[Hashable, ...]:
    """The names of a vectorizer's columns; the numbers of hashed columns, which mean the same in each."""
    if vectorizer.n_hashed:
        return tuple(range(vectorizer.n_hashed))
    return tuple(vectorizer.feature_names_)


def _common(new: Sequence[Hashable], old: Sequence[Hashable]) -> tuple[IntArray, IntArray]:
    """Places in ``new`` and in ``old`` of the names that occur in both."""
    places = {name: k for k, name in enumerate(old)}
    pairs = [(k, places[name]) for k, name in enumerate(new) if name in places]
    found: IntArray = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
