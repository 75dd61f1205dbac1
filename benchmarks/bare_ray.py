"""The rounds of a fit in plain Ray actors: the same compiled functions without the library around them.

:class:`Recorder` records the calls of an engine while a fit runs, and :class:`BareWorkers` replays them: w is
sent by ``ray.put``; numbers and planes come back with the results and are added up by the driver.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.compiled import hinge, products
from maxmargin.core.engine import Handle


@dataclass
class Recorder:
    """An engine that forwards all calls and records them, their sizes and their wall seconds."""

    engine: Any
    keep: bool = True
    sizes: bool = False
    #: called with the name of each call, before the call
    hook: Callable[[str], None] | None = None
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    times: dict[str, list[float]] = field(default_factory=dict)
    #: (to a worker, from a worker) for each call
    bytes: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    @property
    def durable(self) -> bool:
        return bool(self.engine.durable)

    def clear(self) -> None:
        self.calls, self.times, self.bytes = [], {}, {}

    @property
    def seconds(self) -> dict[str, float]:
        """Wall seconds by kind of call."""
        return {what: sum(times) for what, times in self.times.items()}

    def open(self, factory: Any, specs: Any) -> Recorder:
        self.engine.open(factory, specs)
        return self

    def publish(self, array: Any) -> Any:
        began = time.perf_counter()
        handle = self.engine.publish(array)
        self._note("publish", began)
        return handle

    def reduce(self, method: str, *args: Any) -> Any:
        return self._call(self.engine.reduce, method, args)

    def gather(self, method: str, *args: Any) -> Any:
        return self._call(self.engine.gather, method, args)

    def close(self) -> None:
        self.engine.close()

    def _call(self, call: Any, method: str, args: tuple[Any, ...]) -> Any:
        if self.hook is not None:
            self.hook(method)
        began = time.perf_counter()
        answer = call(method, *args)
        self._note(method, began)
        if self.keep:  # copied, so that the object store can free them
            kept = [Handle(np.array(a.array)) if isinstance(a, Handle) else a for a in args]
            self.calls.append((method, tuple(kept)))
        if self.sizes:
            # in a sum every worker sends its own partial sum; in a gather, its share
            share = self.engine.n_workers if call == self.engine.gather else 1
            sent = sum(_size(a.array if isinstance(a, Handle) else a) for a in args)
            self.bytes.setdefault(method, []).append((sent, _size(answer) / share))
        return answer

    def _note(self, what: str, began: float) -> None:
        self.times.setdefault(what, []).append(time.perf_counter() - began)


def _size(value: Any) -> int:
    buffers: list[pickle.PickleBuffer] = []
    plain = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(plain) + sum(buffer.raw().nbytes for buffer in buffers)


class BareShard:
    """Rows of a CSR matrix and cached scores: the work of an actor between two messages."""

    def __init__(self, indptr: Any, indices: Any, data: Any, n_features: int, y: Any) -> None:
        self.X, self.y = (indptr, indices, data), y
        self.n, self.n_features = len(indptr) - 1, n_features
        self.weight = np.ones(self.n)
        self.scores: dict[int, Any] = {}
        #: planes stored in this shard: their derivatives and scores
        self.columns: dict[int, list[Any]] = {}

    def line_evaluate(self, key: int, w: Any, live: Any) -> float:
        for old in [old for old in self.scores if old not in live]:
            del self.scores[old]
        out = self.scores[key] = self._dot(w) if len(w) == self.n_features else self._mixed(w)
        return float(hinge.value(out, self.y, self.weight, 1.0))

    def _dot(self, w: Any) -> Any:
        out = np.empty(self.n)
        products.csr_dot(*self.X, w, 0, self.n, out)
        return out

    def _mixed(self, w: Any) -> Any:
        out = np.zeros(self.n)
        for slot in np.flatnonzero(w):
            out += w[slot] * self.columns[int(slot)][1]
        return out

    def column_gradient(self, slot: int, w: Any) -> float:
        gradient = np.empty(self.n)
        offset = hinge.cut(self._mixed(w), self.y, self.weight, 1.0, gradient)
        self.columns[slot] = [gradient, None]
        return float(offset)

    def column_plane(self, slot: int) -> Any:
        plane = np.zeros(self.n_features)
        products.csr_accumulate(*self.X, self.columns[slot][0], 0, self.n, plane)
        return plane

    def column_finish(self, slot: int, plane: Any) -> None:
        self.columns[slot][1] = self._dot(plane)

    def column_products(self, slot: int, used: list[int]) -> Any:
        out, scores = np.zeros(max([slot, *used]) + 1), self.columns[slot][1]
        for other in {slot, *used}:
            out[other] = self.columns[other][0] @ scores
        return out

    def line_toward(self, a: int, b: int, t: float, key: int, live: Any) -> float:
        moved = self.scores[a] if a not in live else np.empty(self.n)
        products.blend(self.scores[a], self.scores[b], t, moved)
        self.scores[key] = moved
        for old in [old for old in self.scores if old not in live]:
            del self.scores[old]
        return 0.0

    def line_value_toward(self, a: int, b: int, t: float) -> float:
        moved = np.empty(self.n)
        products.blend(self.scores[a], self.scores[b], t, moved)
        return float(hinge.value(moved, self.y, self.weight, 1.0))

    def line_value(self, key: int) -> float:
        return float(hinge.value(self.scores[key], self.y, self.weight, 1.0))

    def line_slopes(self, a: int, b: int, ts: Any) -> Any:
        out = np.zeros(len(ts))
        hinge.slopes(self.scores[a], self.scores[b], self.y, self.weight, 1.0, ts, out)
        return out

    def line_kinks(self, a: int, b: int, lo: float, hi: float, limit: int) -> Any:
        room = min(self.n, 200_000)  # the whole limit: this is one block
        ts, jumps = np.empty(room), np.empty(room)
        count = hinge.kinks(
            self.scores[a], self.scores[b], self.y, self.weight, 1.0, lo, hi, ts, jumps
        )
        return None if count < 0 else (ts[:count], jumps[:count])

    def line_cut(self, key: int) -> Any:
        return self._cut(self.scores[key])

    def line_cut_toward(self, a: int, b: int, t: float) -> Any:
        moved = np.empty(self.n)
        products.blend(self.scores[a], self.scores[b], t, moved)
        return self._cut(moved)

    def _cut(self, scores: Any) -> Any:
        gradient, plane = np.empty(self.n), np.zeros(self.n_features)
        offset = hinge.cut(scores, self.y, self.weight, 1.0, gradient)
        products.csr_accumulate(*self.X, gradient, 0, self.n, plane)
        return offset, plane


class BareWorkers:
    """Plain actors with a range of rows each, which replay the calls of a recorded fit."""

    def __init__(self, ray: Any, X: Any, y: Any, n_workers: int) -> None:
        self._ray = ray
        environment = {"env_vars": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}}
        actor = ray.remote(num_cpus=0, runtime_env=environment)(BareShard)
        bounds = [k * X.shape[0] // n_workers for k in range(n_workers + 1)]
        self._actors = []
        for lo, hi in pairwise(bounds):
            first, last = X.indptr[lo], X.indptr[hi]
            parts = (X.indptr[lo : hi + 1] - first, X.indices[first:last], X.data[first:last])
            placed = [ray.put(part) for part in parts]
            self._actors.append(actor.remote(*placed, X.shape[1], ray.put(y[lo:hi])))

    def replay(self, calls: list[tuple[str, tuple[Any, ...]]]) -> dict[str, float]:
        """Wall seconds by kind of call."""
        seconds: dict[str, float] = {}
        last: Any = None

        def note(what: str, began: float) -> None:
            seconds[what] = seconds.get(what, 0.0) + time.perf_counter() - began

        for method, args in calls:
            began = time.perf_counter()
            sent = [self._placed(a, method, last) for a in args]
            note("publish", began)
            began = time.perf_counter()
            asked = [getattr(actor, method).remote(*sent) for actor in self._actors]
            last = self._sum(method, self._ray.get(asked))
            note(method, began)
        return seconds

    def _placed(self, argument: Any, method: str, last: Any) -> Any:
        if not isinstance(argument, Handle):
            return argument
        array = (
            last if method == "column_finish" else argument.array
        )  # the plane that was added up last
        return array if array.nbytes < 32_768 else self._ray.put(array)

    def _sum(self, method: str, answers: list[Any]) -> Any:
        if method in ("line_kinks", "column_finish"):
            return answers
        if "cut" not in method:
            return sum(answers[1:], start=answers[0])
        plane = answers[0][1]
        for _, other in answers[1:]:
            plane = plane + other
        return sum(offset for offset, _ in answers), plane

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
