"""Words of the OCR letters with an argmax that takes a while: it stands for an expensive one."""

from __future__ import annotations

import time
from typing import Any

from maxmargin.core.contract.examples import Examples
from maxmargin.tasks import Chain


class SlowWords(Chain):
    """A chain that is asked one example at a time and waits before it answers.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    seconds : float
        How long a call takes at least. It does not keep a processor busy, so that more workers than there
        are processors can be tried.
    """

    def __init__(self, n_labels: int, seconds: float) -> None:
        super().__init__(n_labels)
        self.seconds = seconds

    def loss_augmented_inference(self, x: Any, y: Any, w: Any) -> Any:
        time.sleep(self.seconds)
        return super().loss_augmented_inference(x, y, w)

    def pack(self, X: Any, Y: Any, token_weight: Any = None) -> Examples | None:  # type: ignore[override]
        return None
