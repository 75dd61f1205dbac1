"""An engine in this process that rebuilds shards all the time, as if workers died by the thousand."""

from __future__ import annotations

import pickle

import numpy as np

from maxmargin.engines import SerialEngine


class RebuildingEngine(SerialEngine):
    """Shards are built from what was pickled when they were opened. By a coin, in ``rate`` of all calls:

    - a shard is built anew before it is called, alone or with its neighbors, which may have answered;
    - it is built anew after it did its work and before the answer is out, and called again;
    - it stays and is called twice;
    - it is built anew once its answer is out.

    With ``deadly=False`` shards are only called twice.
    """

    durable = False

    def __init__(self, seed, rate=0.02, deadly=True):
        super().__init__()
        self._rng, self._rate, self._deadly = np.random.default_rng(seed), rate, deadly
        self._pickled: list[bytes] = []
        self.deaths = self.repeats = 0

    def open(self, factory, specs):
        self._pickled = [pickle.dumps((factory, spec)) for spec in specs]
        self._shards = [self._built(k) for k in range(len(specs))]
        return self

    def _built(self, index):
        factory, spec = pickle.loads(self._pickled[index])
        return factory(spec)

    def _die(self, *indices):
        for index in indices:
            self._shards[index] = self._built(index)
            self.deaths += 1

    def _rebuilds(self):
        return self._rng.random() < self._rate / len(self._shards)

    def _call(self, index, method, args):
        if self._rebuilds():
            kind = self._rng.integers(4) if self._deadly else 3
            if kind == 0:
                self._die(index)
            elif kind == 1:
                self._die(*range(max(0, index - 2), min(len(self._shards), index + 2)))
            else:
                super()._call(index, method, args)
                self.repeats += 1
                if kind == 2:
                    self._die(index)
        answer = super()._call(index, method, args)
        if self._deadly and self._rebuilds():
            answer = pickle.loads(pickle.dumps(answer))
            self._die(index)
        return answer
