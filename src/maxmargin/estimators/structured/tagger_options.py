"""Which options of a SequenceTagger go together."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal, Protocol

from maxmargin.estimators.structured import sequences as seq
from maxmargin.estimators.structured.kernel_inputs import check_kernel, is_sampled
from maxmargin.solvers import DualCoordinate
from maxmargin.tasks.chains.examples import ChainExamples
from maxmargin.tasks.chains.log_loss import LogLossExamples

#: the examples of each loss
LOSSES: dict[str, type[ChainExamples]] = {"hinge": ChainExamples, "logistic": LogLossExamples}


class TaggerOptions(Protocol):
    """The parameters that are checked here."""

    loss: Literal["hinge", "logistic"]
    cost: Any
    order: int
    partial: str | None
    rescaling: Literal["margin", "slack"]
    solver: Any
    kernel: Any
    gamma: Any
    kernel_method: Any


def check_options(
    tagger: TaggerOptions, flat: list[Hashable], counts: seq.Lengths, token_weight: Any
) -> None:
    """Refuse options that do not exist or that the loss does not support, and unexpected missing labels."""
    if tagger.loss == "logistic":
        _check_logistic(tagger, token_weight)
    check_kernel(tagger)
    place = seq.first_unlabeled(flat, counts)
    if place is not None and tagger.partial is None:
        raise ValueError(
            f"sequence {place[0]} has no label (None) at token {place[1]}. Use partial='complete' to "
            "fill in missing labels by a first model, or pass any label with a token_weight of 0."
        )


def _check_logistic(tagger: TaggerOptions, token_weight: Any) -> None:
    wrong = {
        "cost": (tagger.cost is not None, "a wrong label has no cost, only a probability"),
        "token_weight": (token_weight is not None, "it multiplies costs; use sample_weight"),
        "partial": (
            tagger.partial is not None,
            "with missing labels the loss is not convex, and there would be no certificate",
        ),
        "rescaling": (tagger.rescaling != "margin", "there is no margin to rescale"),
        "kernel_method": (is_sampled(tagger), "sampled cuts are for the hinge loss; use 'nystrom'"),
        "solver": (
            isinstance(tagger.solver, DualCoordinate) and tagger.solver != DualCoordinate(),
            "its settings are about working sets; use 'auto', DualCoordinate() or CuttingPlane()",
        ),
    }
    for name, (is_wrong, why) in wrong.items():
        if is_wrong:
            raise ValueError(f"loss='logistic' does not support {name}: {why}.")
