"""Shards that look at the memory of their process."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np


def own_bytes():
    """Memory that this process shares with nobody."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("no RssAnon")


class Looking:
    """Holds a block, and tells of it."""

    def __init__(self, block):
        self.block = block

    def pid(self):
        return os.getpid()

    def total(self):
        return float(self.block.sum())

    def flags(self):
        return bool(self.block.flags.writeable)

    def scribble(self, value):
        """Write to the block, which a shard should not do."""
        self.block[0] = value

    def own_memory(self, *arrays):
        """Memory that is not shared, after all was looked at."""
        _ = [a.sum() for a in (self.block, *arrays)]
        return own_bytes()

    def keep(self, array):
        self.kept = array

    def kept_total(self):
        return float(self.kept.sum())

    def answer(self, n):
        return np.full(n, 1.0)

    def parts(self, n):
        """A list: its sum is all parts, as they are."""
        return [np.full(n, float(self.block[0]))]

    def sleep(self, seconds):
        time.sleep(seconds)
