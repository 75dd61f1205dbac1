"""The features and labels of a SequenceTagger, to which the weights of an earlier one are assigned."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer
from maxmargin.estimators.named_weights import NamedWeights, feature_names
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.structured.decision import states_of
from maxmargin.estimators.weights import Weighing, weigh
from maxmargin.tasks.chains.chain import Chain


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What the weights of a task belong to."""

    task: Chain
    classes: list[Hashable]
    vectorizer: TokenVectorizer | None

    def aligned(self, named: NamedWeights, parameter: str) -> Array:
        """The weights of another tagger in the order of these features and labels."""
        names = None if self.vectorizer is None else feature_names(self.vectorizer)
        assert self.task.n_features is not None
        return named.aligned(
            names, self.task.n_features, states_of(self.classes, self.task), parameter
        )

    def weighing(self, prior: Any) -> Weighing:
        """The prior in this order."""
        if isinstance(prior, GaussianPrior) and isinstance(prior.mean, NamedWeights):
            prior = replace(prior, mean=self.aligned(prior.mean, "prior"))
        elif (
            isinstance(prior, GaussianPrior) and np.ndim(prior.mean) and self.vectorizer is not None
        ):
            raise ValueError(
                "prior: mean is an array, but the features have names, and their order depends on the data. "
                "Use GaussianPrior.around(tagger), which assigns weights by name and label."
            )
        return weigh(SimpleNamespace(prior=prior), self.task.dim)
