"""Engine with shards on the machines of a Ray cluster.

A worker is a Ray actor with several threads. It holds a contiguous range of shards
(:mod:`maxmargin.engines.host`) and adds up their results before it sends them. Factory and specs are placed
in the object store once and owned by the driver. If a worker dies, the engine starts another one, on the
machine with the fewest of its workers, which builds the same shards; the call is repeated there, a few times.
Ray's own restarts are not used because they are counted over the lifetime of an actor, which would penalize
rare deaths in a long run.

Large sums from many machines are merged by the workers in a tree, through the object store, so that the
driver receives only one. Either way the order of summation is that of :mod:`maxmargin.core.summation`.

Ray listens on every network interface, and anyone who can connect can run code. So an engine requires Ray's
token authentication, in this process and on the cluster.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from maxmargin.core.engine import Handle, R, SerialEngine, shard_method, share
from maxmargin.core.summation import PartialSum, join
from maxmargin.engines.host import LOG, raise_first
from maxmargin.engines.ownership import Owner
from maxmargin.engines.ray_cluster import SMALL, Cluster
from maxmargin.engines.ray_worker import LARGE

#: deaths of one worker during one call after which the call fails
MAX_DEATHS = 3
#: seconds to wait for busy workers when a call is aborted; then they are killed
GRACE = 2.0
#: large sums from more machines than this are merged by the workers. On one machine the driver is faster,
#: because it reads them in place: 50 ms for eight sums of 10 MB, against 70 ms for the tree
FEW = 4
#: number of sums that a worker merges at once; four are faster than two
ARITY = 4
#: machines that fetch a large vector at a time, for each that has it: if all fetched it at once, every copy
#: would come from the driver's machine
FETCHES = 2


@dataclass(frozen=True, slots=True, eq=False)
class _Placed(Handle):
    """A snapshot in the object store, which keeps it as long as this handle lives."""

    ref: Any
    #: workers whose machines have been sent a copy
    sent: set[_Worker] = field(default_factory=set)


class RayEngine(SerialEngine):
    """Shards on the machines of a Ray cluster, or of a local cluster started for them.

    Requires ``pip install "maxmargin[ray]"``, and for addresses ``ray://`` also ``ray[client]``. All machines
    must have the same versions of Python and of the packages; for bit-identical results also the same type of
    processor. If a worker dies, it is replaced and its shards are rebuilt, and the fit goes on.

    Parameters
    ----------
    n_workers : int, optional
        Number of workers. By default one per machine of the cluster that has CPUs available.
    address : str, optional
        The cluster, as for ``ray.init``: ``"host:port"``, or ``"ray://host:port"`` for Ray's client. By
        default the cluster this process is connected to; otherwise that of ``RAY_ADDRESS`` or of ``ray
        start`` on this machine; otherwise a local cluster is started, and shut down with the engine.
    threads : int, optional
        Number of threads per worker. By default the CPUs of the machine, divided among its workers. For
        shards in Python code, which hold the GIL, use more workers with one thread each.
    prepare : callable, optional
        Called once in every worker, before its shards are built.
    timeout : float, optional
        If no worker has answered for this many seconds, those that are still busy are replaced, as if they
        had died. Replacements have twice as long, to load their data. Choose it much longer than a pass of
        one worker over its data. By default the engine waits.

    Raises
    ------
    RuntimeError
        If token authentication is off: Ray listens on every network interface, and without a token anyone who
        can connect can run code. Set ``RAY_AUTH_MODE=token`` before Ray is imported and started, on all
        machines, with the same token in ``RAY_AUTH_TOKEN`` or ``~/.ray/auth_token`` (create one with ``ray
        get-auth-token --generate``). For a local cluster this is automatic.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engines import RayEngine
    >>> engine = RayEngine(n_workers=2)
    >>> float(engine.open(np.asarray, [[1.0, 2.0], [3.0]]).reduce(np.ndarray.sum))  # doctest: +SKIP
    6.0
    >>> engine.close()
    """

    durable = False

    def __init__(
        self,
        n_workers: int | None = None,
        address: str | None = None,
        threads: int | None = None,
        prepare: Callable[[], object] | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds; got {timeout}.")
        self.timeout = timeout
        for name, number in (("n_workers", n_workers), ("threads", threads)):
            if number is not None and number < 1:
                raise ValueError(f"{name} must be at least 1; got {number}.")
        self.n_workers, self.address, self.threads = n_workers, address, threads
        self._prepare, self._owner = prepare, Owner()
        self._cluster: Cluster | None = None
        self._workers: list[_Worker] = []

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies (such as by scikit-learn's clone) use the same cluster, with their own workers.
        options = (self.n_workers, self.address, self.threads, self._prepare, self.timeout)
        return type(self), options

    def open(self, factory: Callable[[Any], Any], specs: Sequence[Any]) -> Self:
        """Build the shards in the workers; start the workers if they are not running."""
        cluster = self._joined()
        machines = cluster.machines()  # also for the workers that are started below
        planned = self.n_workers or len(machines)
        n = min(planned, len(specs))
        try:
            for worker in self._workers[n:]:
                worker.end()
            del self._workers[n:]
            for k in range(len(self._workers), n):
                self._workers.append(_Worker(cluster, self._workers, k, planned, self.threads))
            recipe = cluster.put(cluster.pack((self._prepare, factory)))
            for k, worker in enumerate(self._workers):
                placed = [cluster.place(specs[index]) for index in share(len(specs), n, k)]
                worker.load(recipe, placed, (k, n, len(specs)))
            self._shards = list(range(len(specs)))  # shards are identified by index only
            self._round("built")
        except BaseException:
            self.close()
            raise
        return self

    def publish(self, array: npt.NDArray[Any]) -> Handle:
        """Take a snapshot in the object store, sent to each machine once; small arrays are sent with each
        call."""
        if array.nbytes < SMALL:
            return super().publish(array)
        ref = self._joined().put(np.asarray(array))
        return _Placed(self._joined().snapshot(ref), ref)

    def reduce(self, method: Callable[..., R], *args: Any) -> R:
        """Sum of the results of all shards."""
        self._require_shards()
        name = shard_method(method)
        if len({worker.machine for worker in self._workers}) <= FEW:
            total: R = _whole(self._round("sums", name, *args))
            return total
        found: R = self._tree(name, args)
        return found

    def gather(self, method: Callable[..., R], *args: Any) -> list[R]:
        """Results of all shards."""
        self._require_shards()
        return [
            answer
            for found in self._round("answers", shard_method(method), *args)
            for answer in found
        ]

    def close(self) -> None:
        """Release the shards and end the workers. The last engine also closes the connection it opened."""
        super().close()
        if not self._owner.here:  # in a forked process the workers belong to the parent
            return
        workers, self._workers = self._workers, []
        cluster, self._cluster = self._cluster, None
        for worker in workers:
            worker.end()
        if cluster is not None:
            cluster.leave()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # partly initialized, or the interpreter is exiting
            self.close()

    def _joined(self) -> Cluster:
        self._owner.require_here("RayEngine")
        self._notice_shutdown()
        if self._cluster is None:
            self._cluster = Cluster.join(self.address)
        return self._cluster

    def _notice_shutdown(self) -> None:
        """Drop the workers if ``ray.shutdown()`` was called."""
        if self._cluster is not None and not self._cluster.alive:
            self.close()

    def _require_shards(self) -> None:
        self._owner.require_here("RayEngine")
        self._notice_shutdown()
        super()._require_shards()

    # -- one call --------------------------------------------------------------------------------------

    def _round(self, how: str, *args: Any) -> list[Any]:
        """Call all workers; return their results in order, or raise the error of the first failing shard."""
        sent = tuple(a.ref if isinstance(a, _Placed) else a for a in args)
        try:
            for handle in args:
                if isinstance(handle, _Placed) and handle.array.nbytes >= LARGE:
                    self._spread(handle)
            for worker in self._workers:
                worker.ask(how, sent)
            found = self._collected()
        except BaseException:
            self._end_busy()
            raise
        finally:
            for worker in self._workers:
                worker.forget_call()
        raise_first(found)
        return found

    def _spread(self, handle: _Placed) -> None:
        """Send a large vector to the machines in waves: each that has it is a source for the next. The last
        ones fetch it with the call itself."""
        cluster = self._joined()
        first = {worker.machine: worker for worker in reversed(self._workers)}
        waiting = [w for w in first.values() if w.running and w not in handle.sent]
        if len(first) <= FEW or not waiting:
            return
        handle.sent.update(waiting)
        sources, fetching = len(first) - len(waiting) + 1, set[Any]()
        while waiting:
            room = FETCHES * sources - len(fetching)
            fetching.update(worker.fetch(handle.ref) for worker in waiting[:room])
            del waiting[:room]
            ready = cluster.first(list(fetching), self.timeout) if waiting else None
            if ready is None:
                return  # also if none is ready in time: the call itself replaces workers that hang
            fetching.remove(ready)
            sources += 1

    def _collected(self) -> list[Any]:
        """The results of the workers; workers that died are restarted and called again."""
        cluster = self._joined()
        if self.timeout is None:
            with contextlib.suppress(*cluster.lost):
                return list(cluster.get([worker.answer for worker in self._workers]))
        found: dict[_Worker, Any] = {}
        busy = {worker.answer: worker for worker in self._workers}
        while busy:
            # twice as long after each replacement: new workers load their data first
            seconds = self.timeout and self.timeout * 2 ** max(w.deaths for w in busy.values())
            ready = cluster.first(list(busy), seconds)
            if ready is None:
                late = TimeoutError(f"no answer for {seconds:g} seconds")
                busy = {worker.died(late): worker for worker in busy.values()}
                continue
            worker = busy.pop(ready)
            try:
                found[worker] = cluster.get(worker.answer)
            except cluster.lost as error:
                busy[worker.died(error)] = worker
        return [found[worker] for worker in self._workers]

    def _tree(self, method: str, args: tuple[Any, ...]) -> Any:
        """The sum, merged by the workers if it is large; recomputed if a part of it is lost."""
        cluster = self._joined()
        lost: Exception | None = None
        for _ in range(MAX_DEATHS):
            found = self._round("held", method, *args)
            if not any(sums is None for sums in found):
                return _whole(found)
            sums = [
                worker.take_held() if mine is None else mine
                for worker, mine in zip(self._workers, found, strict=True)
            ]
            step = 1
            while len(sums) > ARITY:
                step *= ARITY
                groups = [sums[k : k + ARITY] for k in range(0, len(sums), ARITY)]
                sums = [self._workers[k * step].merge(group) for k, group in enumerate(groups)]
            try:
                return cluster.get(self._workers[0].total(sums))
            except cluster.lost as error:
                lost = error
        raise RuntimeError(
            f"partial sums were lost {MAX_DEATHS} times in a row while they were added up; machines of the "
            f"cluster seem to fail one after another. The last loss: {lost}"
        )

    def _end_busy(self) -> None:
        """After an aborted call, kill workers that are still busy after a grace period."""
        cluster = self._joined()
        asked = [worker for worker in self._workers if worker.answer is not None]
        done: set[Any] = set()
        try:
            done = cluster.done([worker.answer for worker in asked], GRACE)
        finally:  # also after another Ctrl-C
            for worker in asked:
                if worker.answer not in done:
                    worker.end()


def _whole(sums: list[list[PartialSum]]) -> Any:
    return join(chain.from_iterable(sums))


class _Worker:
    """The driver's side of an actor."""

    def __init__(
        self, cluster: Cluster, team: list[_Worker], number: int, size: int, threads: int | None
    ) -> None:
        self._cluster, self._team, self._threads = cluster, team, threads
        self._number, self._size = number, size
        self._recipe: tuple[Any, ...] = ()
        self._loaded, self.deaths = False, 0
        self._call: tuple[str, tuple[Any, ...]] = ("", ())
        self._actor: Any = None
        self.machine = ""
        self.answer: Any = None
        self._held: Any = None

    def load(self, *recipe: Any) -> None:
        """Set the shards to be built with the next call."""
        self._recipe, self._loaded = recipe, False

    def ask(self, how: str, args: tuple[Any, ...]) -> None:
        """Call a method of the actor."""
        self._call, self.deaths = (how, args), 0
        self._put()

    def _put(self) -> None:
        self.answer = self._held = None
        if self._actor is None:
            taken = Counter(worker.machine for worker in self._team if worker is not self)
            self.machine, self._actor = self._cluster.start(
                self._number, self._size, taken, self._threads
            )
            self._loaded = False
        if not self._loaded:
            self._actor.build.remote(*self._recipe)
            self._loaded = True
        how, args = self._call
        call = getattr(self._actor, how)
        if how == "held":
            self.answer, self._held = call.options(num_returns=2).remote(*args)
        else:
            self.answer = call.remote(*args)

    def forget_call(self) -> None:
        """Drop references to the call, so that the object store can free its objects."""
        self._call, self.answer = ("", ()), None

    def take_held(self) -> Any:
        """A reference to the sums to be merged."""
        held, self._held = self._held, None
        return held

    @property
    def running(self) -> bool:
        return self._actor is not None

    def fetch(self, ref: Any) -> Any:
        """Copy a value of the object store to the worker's machine."""
        return self._actor.fetch.remote(ref)

    def merge(self, sums: list[Any]) -> Any:
        return self._actor.merge.remote(*sums)

    def total(self, sums: list[Any]) -> Any:
        return self._actor.total.remote(*sums)

    def died(self, error: Exception) -> Any:
        """Restart the worker and repeat the call, unless it has died too often; the reference to the new
        answer."""
        self.deaths += 1
        LOG.warning(
            "worker %d of %d on machine %s was lost during a call (%d of at most %d times): its shards are "
            "rebuilt, and the call is repeated. %s: %s",
            self._number, self._size, self.machine, self.deaths, MAX_DEATHS, type(error).__name__,
            str(error).partition("\n")[0],
        )  # fmt: skip
        self.end()
        if self.deaths >= MAX_DEATHS:
            raise RuntimeError(
                f"worker {self._number} of {self._size} died {self.deaths} times during one call; its "
                f"shards were rebuilt each time. {self._cluster.why(error)} The last death: {error}"
            ) from None
        self._cluster.machines()  # some may be gone, too
        self._put()
        return self.answer

    def end(self) -> None:
        """End the process, even if it is busy."""
        actor, self._actor = self._actor, None
        self.answer = self._held = None
        if actor is not None:
            self._cluster.kill(actor)
