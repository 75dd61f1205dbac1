"""The workers of a Ray engine: which of them has which shards, and what happens when one dies.

A worker begins with the contiguous range of shards of its number (:func:`maxmargin.core.engine.share`), its
*home*. If it dies, in the middle of a call or between two calls, its shards are spread over the others at
once, which build them and repeat the call for them: with n workers, that round and those after it are n/(n-1)
times as long. A new process is started meanwhile, if a machine has room for it; if none has, the team looks
for one from time to time. When the process has built its shards, it takes them back from the others between
two rounds. Shards that store what cannot soon be computed again (``movable`` is false) stay where they are
until the engine builds shards anew.

Whoever has a shard, its results enter the sum at the same place (:mod:`maxmargin.core.summation`).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.engine import Traffic, share
from maxmargin.engines.host import LOG, Failure
from maxmargin.engines.ray_cluster import Cluster
from maxmargin.engines.ray_worker import size_of

#: losses of one shard during one call after which the call fails; also the number of new processes of one
#: worker that may fail before it is given up
MAX_DEATHS = 3
#: seconds to wait for busy workers when a call is aborted; then they are killed
GRACE = 2.0
#: seconds between two looks for a machine with room for a worker that is missing
LOOK = 5.0


class Worker:
    """The driver's side of an actor."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.machine = ""
        self.actor: Any = None
        self.home: Sequence[int] = ()
        #: numbers of the shards that it has, ascending
        self.shards: list[int] = []
        #: the answer of a new process that is building its home shards, and how many of them failed
        self.coming: Any = None
        self.failures = 0
        self._built = False

    def load(self, home: Sequence[int]) -> None:
        """Set the shards to be built with the next call."""
        self.home, self.shards = home, list(home)
        self.coming, self.failures, self._built = None, 0, False

    def merge(self, sums: list[Any]) -> Any:
        return self.actor.merge.remote(*sums)

    def total(self, sums: list[Any]) -> Any:
        return self.actor.total.remote(*sums)

    def fetch(self, ref: Any) -> Any:
        """Copy a value of the object store to the worker's machine."""
        return self.actor.fetch.remote(ref)


@dataclass(slots=True, eq=False)
class Call:
    """A call of some or all shards of a worker: references to its results."""

    worker: Worker
    numbers: list[int]
    answer: Any
    #: large sums that stay with the worker
    held: Any = None
    found: Any = None


class Team:
    """The workers of one engine.

    Parameters
    ----------
    cluster : Cluster
        Where they run.
    threads : int or None
        Threads of each; None for a share of its machine.
    traffic : Traffic
        The engine's counts.
    """

    def __init__(self, cluster: Cluster, threads: int | None, traffic: Traffic) -> None:
        self._cluster, self._threads = cluster, threads
        self.workers: list[Worker] = []
        self._planned, self._most = 1, 1
        self._recipe: Any = None
        self._specs: list[Any] = []
        self._calls: dict[Any, Call] = {}
        self._looked = 0.0
        self._traffic = traffic

    def load(self, n: int, planned: int, recipe: Any, specs: list[Any]) -> None:
        """Have n workers, of as many as planned, and set the shards that they build with the next call."""
        machines = self._cluster.machines()  # also for the workers that are started below
        self._planned, self._most = planned, math.ceil(planned / len(machines))
        for worker in self.workers[n:]:
            self.end(worker)
        self.workers[n:] = [Worker(k) for k in range(len(self.workers), n)]
        self._recipe, self._specs = recipe, specs
        for worker in self.workers:
            worker.load(share(len(specs), n, worker.number))

    # -- calls -------------------------------------------------------------------------------------

    def call(self, how: str, args: tuple[object, ...], timeout: float | None) -> list[Call]:
        """Call all shards; the calls with their results, in the order of the shards."""
        began = time.perf_counter()
        if sum(len(worker.shards) for worker in self.workers) != len(self._specs):
            # Ctrl-C came while shards were moved
            for worker in self.workers:
                worker.load(worker.home)
        self._rebalance()
        try:
            for worker in self.workers:
                if worker.shards:
                    self._ask(worker, how, args)
            done = self._collected(how, args, timeout)
        except BaseException:
            self._end_busy()
            raise
        finally:
            self._calls = {}
        self._traffic.received += sum(size_of(call.found) for call in done)
        self._traffic.rounds += 1
        self._traffic.seconds += time.perf_counter() - began
        return sorted(done, key=lambda call: call.numbers[0])

    def _ask(
        self, worker: Worker, how: str, args: tuple[object, ...], numbers: list[int] | None = None
    ) -> None:
        """Call the shards of a worker, or some of them."""
        if worker.actor is None:
            self._start(worker)
        if not worker._built:
            self._build(worker, worker.shards)
        method, held = getattr(worker.actor, how), None
        if how == "held":
            answer, held = method.options(num_returns=2).remote(numbers, *args)
        else:
            answer = method.remote(numbers, *args)
        self._calls[answer] = Call(worker, numbers or list(worker.shards), answer, held)

    def _collected(self, how: str, args: tuple[object, ...], timeout: float | None) -> list[Call]:
        """The calls, answered; if workers die, others have answered for them."""
        cluster, calls = self._cluster, self._calls
        self._traffic.sent += len(calls) * size_of(args)
        if timeout is None:
            try:
                for call, found in zip(calls.values(), cluster.get(list(calls)), strict=True):
                    call.found = found
                return list(calls.values())
            except cluster.lost:
                pass
        done: list[Call] = []
        losses = Counter[int]()
        while calls:
            # twice as long after each loss: others build the shards first
            most = max(losses.values(), default=0)
            seconds = timeout and timeout * 2**most
            ready = cluster.first(list(calls), seconds)
            if ready is None:
                late = {call.worker: None for call in calls.values()}
                error: Exception = TimeoutError(f"no answer for {seconds:g} seconds")
                self._lose(list(late), error, losses, (how, args))
                continue
            call = calls[ready]
            try:
                call.found = cluster.get(ready)
            except cluster.lost as lost:
                self._lose([call.worker], lost, losses, (how, args))
            else:
                done.append(calls.pop(ready))
        return done

    def _end_busy(self) -> None:
        """After an aborted call, kill workers that are still busy after a grace period."""
        done: set[Any] = set()
        try:
            done = self._cluster.done(list(self._calls), GRACE)
        finally:  # also after another Ctrl-C
            for answer, call in self._calls.items():
                if answer not in done:
                    self.end(call.worker)

    # -- deaths ------------------------------------------------------------------------------------

    def _lose(
        self,
        dead: list[Worker],
        error: Exception,
        losses: Counter[int],
        repeated: tuple[str, tuple[object, ...]],
    ) -> None:
        """Spread the shards of dead workers over the others, and repeat the call for those that need it."""
        again = {
            number: None
            for answer, call in list(self._calls.items())
            if call.worker in dead
            for number in self._calls.pop(answer).numbers
        }
        losses.update(again.keys())
        for worker in dead:
            self.end(worker)
        others = [worker for worker in self.workers if worker.actor and worker.shards]
        what = f"are spread over {len(others)} others" if others else "are rebuilt"
        for worker in dead:
            LOG.warning(
                "worker %d of %d on machine %s was lost during a call (%d of at most %d times): "
                "its %d shards %s, and the call is repeated for them. %s: %s",
                worker.number, len(self.workers), worker.machine, max(losses.values(), default=0),
                MAX_DEATHS, len(worker.shards), what, type(error).__name__,
                str(error).partition("\n")[0],
            )  # fmt: skip
        if max(losses.values(), default=0) >= MAX_DEATHS:
            raise RuntimeError(
                f"worker {dead[0].number} of {len(self.workers)} died, and shards that it had were lost "
                f"{max(losses.values())} times during one call; they were rebuilt each time. "
                f"{self._cluster.why(error)} The last death: {error}"
            ) from None
        self._cluster.machines()  # some may be gone, too
        how, args = repeated
        if not others:
            for worker in dead:
                self._ask(worker, how, args, [k for k in worker.shards if k in again])
            return
        lost = sorted(number for worker in dead for number in worker.shards)
        for worker in dead:
            worker.shards = []
            self._replace(worker)
        others.sort(key=lambda worker: len(worker.shards))
        for worker, part in zip(others, np.array_split(lost, len(others)), strict=True):
            own = part.tolist()
            worker.actor.adopt.remote([self._specs[k] for k in own], own)
            worker.shards = sorted(worker.shards + own)
            if repeat := [number for number in own if number in again]:
                self._ask(worker, how, args, repeat)

    def _replace(self, worker: Worker) -> None:
        """Start a process that builds the home shards of a worker, if a machine has room for it."""
        taken = self._taken()
        room = any(taken[name] < self._most for name in self._cluster.machines())
        self._looked = time.monotonic()
        if room and worker.failures < MAX_DEATHS:
            self._start(worker)
            self._build(worker, worker.home)
            worker.coming = worker.actor.built.remote(None)
            LOG.info(
                "worker %d of %d is started again on machine %s",
                worker.number, len(self.workers), worker.machine,
            )  # fmt: skip

    def _rebalance(self) -> None:
        """Give their home shards back to workers whose new process has built them."""
        for worker in self.workers:
            if worker.shards:
                continue
            if worker.actor is None:
                if time.monotonic() > self._looked + LOOK:
                    self._replace(worker)
            elif self._cluster.done([worker.coming], 0.0):
                self._take_back(worker)

    def _take_back(self, worker: Worker) -> None:
        holders = {
            other: own
            for other in self.workers
            if (own := [number for number in other.shards if number in worker.home])
        }
        try:
            failed = self._cluster.get(worker.coming)
            asked = [o.actor.movable.remote(n) for o, n in holders.items() if o.actor]
            # without an answer, one hangs: the next call notices that
            answered = len(self._cluster.done(asked, GRACE)) == len(asked)
            stays = bool(failed) or not answered or not all(self._cluster.get(asked))
        except self._cluster.lost as error:  # of another worker: the next call notices that
            failed, stays = Failure(error), True
        if isinstance(failed, Failure):
            LOG.warning(
                "the new process of worker %d of %d on machine %s failed; its shards stay with "
                "the others. %s",
                worker.number, len(self.workers), worker.machine, failed.error,
            )  # fmt: skip
            worker.failures += 1
            self.end(worker)
        if stays:
            return
        for other, own in holders.items():
            other.shards = [number for number in other.shards if number not in worker.home]
            if other.actor:
                other.actor.release.remote(own)
        worker.shards, worker.coming, worker.failures = list(worker.home), None, 0
        LOG.info(
            "worker %d of %d on machine %s has its %d shards back from %d others",
            worker.number, len(self.workers), worker.machine, len(worker.shards), len(holders),
        )  # fmt: skip

    # -- processes ---------------------------------------------------------------------------------

    def _taken(self) -> Counter[str]:
        return Counter(worker.machine for worker in self.workers if worker.actor)

    def _start(self, worker: Worker) -> None:
        worker.machine, worker.actor = self._cluster.start(
            worker.number, self._planned, self._taken(), self._threads, self._most
        )
        worker._built = False

    def _build(self, worker: Worker, numbers: Iterable[int]) -> None:
        own = list(numbers)
        worker.actor.build.remote(
            self._recipe, [self._specs[k] for k in own], own, len(self._specs)
        )
        worker._built = True

    def end(self, worker: Worker) -> None:
        """End the process, even if it is busy."""
        actor, worker.actor, worker.coming = worker.actor, None, None
        worker._built = False
        if actor is not None:
            self._cluster.kill(actor)

    def machines(self) -> set[str]:
        """Machines with workers."""
        return {worker.machine for worker in self.workers if worker.shards}
