"""The largest weights of a fitted tagger: features of each label, and transitions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from maxmargin.core.checks import integer, one_of
from maxmargin.core.vectors import Array


class TaggerExplanation:
    """The largest weights of a tagger, as text or as a data frame.

    :meth:`maxmargin.SequenceTagger.explain` returns it. Print it to read it.

    Parameters
    ----------
    features : dict
        For each label (with ``order=2``: for each pair of labels), a list of pairs (name, weight), largest
        weight first.
    transitions : list of tuples
        (from, to, weight), largest weight first. None stands for the start or the end of a sequence.

    Examples
    --------
    >>> from maxmargin import SequenceTagger
    >>> X = [[["w=the"], ["w=cat"], ["w=sat"]], [["w=a"], ["w=dog"], ["w=ran"]]]
    >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]]
    >>> found = SequenceTagger().fit(X, y).explain(n=2)
    >>> sorted(name for name, weight in found.features["DET"])
    ['w=a', 'w=the']
    >>> found.to_frame("transitions").columns.tolist()
    ['from', 'to', 'weight']
    """

    def __init__(
        self,
        features: dict[Hashable, list[tuple[str, float]]],
        transitions: list[tuple[Hashable, Hashable, float]],
    ) -> None:
        self.features = features
        self.transitions = transitions

    def __repr__(self) -> str:
        names = [name for pairs in self.features.values() for name, _ in pairs]
        arrows = [_arrow(a, b) for a, b, _ in self.transitions]
        width = max(map(len, [*names, *arrows]), default=0)
        lines = []
        for label, pairs in self.features.items():
            lines.append(f"{label}")
            lines += [f"  {name:<{width}}  {weight:+.3f}" for name, weight in pairs]
        lines.append("transitions")
        lines += [f"  {_arrow(a, b):<{width}}  {weight:+.3f}" for a, b, weight in self.transitions]
        return "\n".join(lines)

    def to_frame(self, what: str = "features") -> Any:
        """Return the weights as a pandas data frame.

        Parameters
        ----------
        what : {"features", "transitions"}, default "features"
            Which weights.

        Returns
        -------
        pandas.DataFrame
            The columns are "label", "feature" and "weight" for features, and "from", "to" and "weight" for
            transitions. In the latter, None is the start or the end of a sequence.
        """
        one_of("what", what, ("features", "transitions"))
        try:
            import pandas
        except ImportError as error:
            raise ImportError(
                "to_frame requires pandas. Without it, use the attributes features and transitions."
            ) from error
        if what == "transitions":
            columns: dict[str, list[Any]] = {
                "from": [a for a, _, _ in self.transitions],
                "to": [b for _, b, _ in self.transitions],
                "weight": [weight for _, _, weight in self.transitions],
            }
        else:
            entries = [(k, *pair) for k, pairs in self.features.items() for pair in pairs]
            columns = {
                "label": [label for label, _, _ in entries],
                "feature": [name for _, name, _ in entries],
                "weight": [weight for _, _, weight in entries],
            }
        series = {
            name: pandas.Series(values, dtype="float64" if name == "weight" else object)
            for name, values in columns.items()
        }
        return pandas.DataFrame(series)


def explain(
    coef: Array,
    moves: tuple[Array, Array, Array],
    allowed: tuple[Any, Any, Any],
    states: Sequence[Hashable],
    names: Sequence[str],
    n: int | None,
) -> TaggerExplanation:
    """The n largest weights of each state and of the transitions; all of them if n is None.

    ``moves`` and ``allowed`` belong to neighboring, first, and last states.
    """
    integer("n", n, optional=True)
    features = {
        state: [(str(names[j]), float(row[j])) for j in _largest(row, n)]
        for state, row in zip(states, coef, strict=True)
    }
    (pairs, starts, stops), (may_follow, may_start, may_stop) = moves, allowed
    ends: list[tuple[Hashable, Hashable]] = [(a, b) for a in states for b in states]
    ends += [(None, b) for b in states] + [(a, None) for a in states]
    weights = np.concatenate([pairs.ravel(), starts, stops])
    mask = np.concatenate([np.ravel(may_follow), may_start, may_stop])
    chosen = _largest(np.where(mask, weights, 0.0), n)
    return TaggerExplanation(features, [(*ends[j], float(weights[j])) for j in chosen])


def _largest(weights: Array, n: int | None) -> Any:
    """Indices of the n weights with the largest absolute values, largest weight first, without zeros.

    Weights that differ only by rounding are equal: they keep their order, on every machine.
    """
    scale = float(np.abs(weights).max(initial=0.0))
    if scale == 0.0:
        return np.zeros(0, dtype=np.int64)
    keys = np.round(weights / scale, 9)
    order = np.argsort(-np.abs(keys), kind="stable")[:n]
    order = order[keys[order] != 0.0]
    return order[np.argsort(-keys[order], kind="stable")]


def _arrow(a: Hashable, b: Hashable) -> str:
    return f"{'(start)' if a is None else a} -> {'(end)' if b is None else b}"
