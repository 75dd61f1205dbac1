"""Tasks that processes of their own can import: slow ones, failing ones, deadly ones."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
from tests.tiny_tasks import TinyMulticlass


class Sleepy(TinyMulticlass):
    """An argmax that takes a while, and notes when in a file."""

    def __init__(self, seconds=0.02, log=None):
        super().__init__()
        self.seconds, self.log = seconds, log

    def loss_augmented_inference(self, x, y, w):
        begin = time.monotonic()
        time.sleep(self.seconds)
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{os.getpid()} {begin} {time.monotonic()}\n")
        return super().loss_augmented_inference(x, y, w)


class Failing(TinyMulticlass):
    """An argmax that knows no answer for one input."""

    def loss_augmented_inference(self, x, y, w):
        if x[0] == 7.0:
            raise LookupError("no answer for seven")
        return super().loss_augmented_inference(x, y, w)


class Deadly(TinyMulticlass):
    """An argmax that kills or stops its process: the first ``times`` times it is asked, by a counter in a
    file."""

    def __init__(self, counter="", times=1, by=signal.SIGKILL):
        super().__init__()
        self.counter, self.times, self.by = counter, times, by

    def loss_augmented_inference(self, x, y, w):
        deaths = os.path.getsize(self.counter)
        if x[0] == 7.0 and deaths < self.times:
            with open(self.counter, "a") as file:
                file.write("x")
            os.kill(os.getpid(), self.by)
        return super().loss_augmented_inference(x, y, w)


def examples(n=24, seven=None, d=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = (X + 0.5 * rng.normal(size=X.shape)).argmax(axis=1)
    if seven is not None:
        X[seven, 0] = 7.0
    return list(X), [int(label) for label in y]
