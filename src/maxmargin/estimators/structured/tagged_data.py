"""The training data of a tagger: stacked sequences, missing labels, and the risk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.engine import Engine
from maxmargin.core.vectors import Array
from maxmargin.estimators.structured.kernel_inputs import Mapped
from maxmargin.estimators.structured.sequences import Lengths, by_sequence
from maxmargin.kernels import Kernel, KernelExpansion
from maxmargin.risks import TaskRisk
from maxmargin.tasks.chains.chain import Chain, WeightedLabels
from maxmargin.tasks.chains.examples import ChainExamples
from maxmargin.tasks.chains.second_order import expand, second_order


class TaggedData(NamedTuple):
    """Stacked sequences with the codes of their labels (-1: missing) and token weights."""

    task: Chain
    rows: Any
    counts: Lengths
    codes: Any
    weight: Array

    def split(self, flat: Any) -> list[Any]:
        """One part per sequence."""
        return by_sequence(flat, self.counts)

    def fully_labeled(self) -> Any:
        """Which sequences have no missing label."""
        return np.array([(y >= 0).all() for y in self.split(self.codes)])

    def rows_of(self, which: Any) -> TaggedData:
        """Some of the sequences."""
        tokens = np.repeat(which, self.counts)
        rows = self.rows[np.flatnonzero(tokens)]
        counts, codes = self.counts[which], self.codes[tokens]
        return TaggedData(self.task, rows, counts, codes, self.weight[tokens])

    def completed(self, w: Array) -> TaggedData:
        """The same data with missing labels predicted by these weights; they have a token weight of 0."""
        codes = self.codes.copy()
        for i, (x, y) in enumerate(zip(self.split(self.rows), self.split(codes), strict=True)):
            if (y < 0).any():
                try:
                    y[:] = self.task.complete(x, y, w)
                except ValueError as error:
                    raise ValueError(
                        f"forbidden_transitions allows no labeling of sequence {i} that agrees with its "
                        "known labels: correct them, leave out the sequence, or allow more transitions."
                    ) from error
        return self._replace(codes=codes, weight=np.where(self.codes < 0, 0.0, self.weight))

    def second_order(self) -> TaggedData:
        """The same sequences over pairs of labels."""
        K = self.task.n_labels
        states = [expand(y, K) for y in self.split(self.codes)]
        return self._replace(task=second_order(self.task), codes=np.concatenate(states))

    def labeled(self) -> tuple[list[Any], list[Any]]:
        """Sequences and their labels, one by one."""
        pairs = zip(self.split(self.codes), self.split(self.weight), strict=True)
        return self.split(self.rows), [WeightedLabels(y, s) for y, s in pairs]

    def risk(
        self,
        sample_weight: Array | None,
        rescaling: str,
        engine: Engine | None,
        loss: type[ChainExamples] = ChainExamples,
    ) -> TaskRisk:
        """The risk: compiled for margin rescaling, one sequence at a time for slack rescaling."""
        task = self.task
        examples = loss.from_stacked(task, self.rows, self.counts, self.codes, self.weight)
        X: list[Any] = []
        Y: list[Any] = []
        if rescaling != "margin":
            X, Y = self.labeled()
        return TaskRisk(
            task,
            X,
            Y,
            task.dim,
            rescaling=rescaling,  # type: ignore[arg-type]
            sample_weight=sample_weight,
            engine=engine,
            examples=examples if rescaling == "margin" else None,
        )


def score_parts(task: Chain, w: Array, mapped: Mapped | None) -> dict[str, Any]:
    """The attributes of a fitted tagger: its weights and, with a kernel, the functions they define."""
    if mapped is None:
        return {"weights_": w, "expansion_": None}
    w, features = mapped.folded(task, w)
    return {"weights_": w, "expansion_": label_functions(task, w, features.kernel, features.rows)}


def label_functions(task: Chain, w: Array, kernel: Kernel, rows: Any) -> KernelExpansion:
    """The scores of labels as functions of a token, for a chain whose features are values k(x, rows)."""
    K = task.n_labels
    coef = w[: w.size - len(task.penalty)].reshape(-1, K)
    return KernelExpansion(kernel, rows, coef, np.zeros(K))
