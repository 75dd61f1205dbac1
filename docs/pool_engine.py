"""An engine whose workers are the threads of an executor from Python's standard library."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from maxmargin.core.summation import tree_sum
from maxmargin.engines import Handle, shard_method


class PoolEngine:
    """Shards in this process, called by the threads of a pool."""

    durable = True  # shards live as long as the engine does

    def __init__(self, n_workers=2):
        self.n_workers = n_workers
        self._pool = ThreadPoolExecutor(n_workers)
        self._shards = []

    def __reduce__(self):  # a copy, such as scikit-learn's clone makes, has its own threads
        return type(self), (self.n_workers,)

    def open(self, factory, specs):
        self._shards = []
        self._shards = self._noted("building", lambda k: factory(specs[k]), len(specs))
        return self

    def publish(self, array):
        copy = np.array(array)
        copy.setflags(write=False)
        return Handle(copy)

    def gather(self, method, *args):
        if not self._shards:
            raise RuntimeError("no shards: call open() first.")
        plain = [a.array if isinstance(a, Handle) else a for a in args]
        shards, name = self._shards, shard_method(method)
        return self._noted(name, lambda k: getattr(shards[k], name)(*plain), len(shards))

    def reduce(self, method, *args):
        return tree_sum(self.gather(method, *args))  # the order of sums that all engines share

    def close(self):
        self._shards = []

    def _noted(self, what, call, count):
        calls = [self._pool.submit(call, k) for k in range(count)]
        errors = [future.exception() for future in calls]  # waits for all of them
        for k, error in enumerate(errors):
            if error is not None:
                error.add_note(f"raised by {what!r} in shard {k} of {count}")
                raise error
        return [future.result() for future in calls]
