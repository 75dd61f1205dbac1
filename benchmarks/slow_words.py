"""Words of the OCR letters with a slow argmax, in place of an expensive one."""

from __future__ import annotations

import time
from typing import Any

from maxmargin.core.contract.examples import Examples
from maxmargin.tasks import Chain


class SlowWords(Chain):
    """A chain whose oracle processes one example at a time and sleeps before it returns.

    Parameters
    ----------
    n_labels : int
        Number of labels.
    seconds : float
        Minimum duration of a call. Sleeping does not use a CPU, so that more workers than CPUs can be tested.
    """

    def __init__(self, n_labels: int, seconds: float) -> None:
        super().__init__(n_labels)
        self.seconds = seconds

    def loss_augmented_inference(self, x: Any, y: Any, w: Any) -> Any:
        time.sleep(self.seconds)
        return super().loss_augmented_inference(x, y, w)

    def pack(self, X: Any, Y: Any, token_weight: Any = None) -> Examples | None:  # type: ignore[override]
        return None
