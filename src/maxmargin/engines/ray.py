"""Engine with shards on the machines of a Ray cluster.

A worker is a Ray actor with several threads. It holds some of the shards (:mod:`maxmargin.engines.host`) and
adds up their results before it sends them. Factory and specs are placed in the object store once and owned
by the driver. If a worker dies, others take over its shards until it has another process
(:mod:`maxmargin.engines.ray_team`). Ray's own restarts are not used because they are counted over the
lifetime of an actor, which would penalize rare deaths in a long run.

Large sums from many machines are merged by the workers in a tree, through the object store, so that the
driver receives only one. Either way the order of summation is that of :mod:`maxmargin.core.summation`.

Ray listens on every network interface, and anyone who can connect can run code. So an engine requires Ray's
token authentication, in this process and on the cluster.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from maxmargin.core.engine import Handle, R, SerialEngine, Traffic, shard_method
from maxmargin.core.summation import in_order, join
from maxmargin.engines.host import LOG, raise_first
from maxmargin.engines.ownership import Owner
from maxmargin.engines.ray_cluster import SMALL, Cluster
from maxmargin.engines.ray_team import MAX_DEATHS, Call, Team, Worker
from maxmargin.engines.ray_worker import LARGE, size_of

#: sums from more machines than this are merged by the workers, if they have more bytes than this together.
#: On one machine the driver is faster, because it reads them in place: 50 ms for eight sums of 10 MB, against
#: 70 ms for the tree
FEW, MUCH = 4, 4_000_000
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
    sent: set[Worker] = field(default_factory=set)
    #: machines whose copies were counted
    machines: set[str] = field(default_factory=set)


class RayEngine(SerialEngine):
    """Shards on the machines of a Ray cluster, or of a local cluster started for them.

    Requires ``pip install "maxmargin[ray]"``, and for addresses ``ray://`` also ``ray[client]``. All machines
    must have the same versions of Python and of the packages; for bit-identical results also the same type of
    processor. If a worker dies, the others rebuild its shards, and the fit goes on.

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
        self._team: Team | None = None
        #: see :class:`maxmargin.core.engine.SerialEngine`; a published vector counts once for each machine
        self.traffic: Traffic = Traffic()

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies (such as by scikit-learn's clone) use the same cluster, with their own workers.
        options = (self.n_workers, self.address, self.threads, self._prepare, self.timeout)
        return type(self), options

    def open(self, factory: Callable[[Any], Any], specs: Sequence[object]) -> Self:
        """Build the shards in the workers; start the workers if they are not running."""
        cluster = self._joined()
        if self._team is None:
            self._team = Team(cluster, self.threads, self.traffic)
        planned = self.n_workers or len(cluster.machines())
        try:
            recipe = cluster.put(cluster.pack((self._prepare, factory)))
            placed = [cluster.place(spec) for spec in specs]
            self._team.load(min(planned, len(specs)), planned, recipe, placed)
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

    def reduce(self, method: Callable[..., R], *args: object) -> R:
        """Sum of the results of all shards."""
        self._require_shards()
        name = shard_method(method)
        if len(self._working().machines()) <= FEW:
            total: R = _whole(self._round("sums", name, *args))
            return total
        found: R = self._tree(name, args)
        return found

    def gather(self, method: Callable[..., R], *args: object) -> list[R]:
        """Results of all shards."""
        self._require_shards()
        answers: dict[int, R] = {}
        for call in self._round("answers", shard_method(method), *args):
            answers.update(zip(call.numbers, call.found, strict=True))
        return [answer for _, answer in sorted(answers.items())]

    def close(self) -> None:
        """Release the shards and end the workers. The last engine also closes the connection it opened."""
        super().close()
        if not self._owner.here:  # in a forked process the workers belong to the parent
            return
        team, self._team = self._team, None
        cluster, self._cluster = self._cluster, None
        if team is not None:
            for worker in team.workers:
                team.end(worker)
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

    def _working(self) -> Team:
        assert self._team is not None  # there are shards
        return self._team

    def _notice_shutdown(self) -> None:
        """Drop the workers if ``ray.shutdown()`` was called."""
        if self._cluster is not None and not self._cluster.alive:
            self.close()

    def _require_shards(self) -> None:
        self._owner.require_here("RayEngine")
        self._notice_shutdown()
        super()._require_shards()

    # -- one call --------------------------------------------------------------------------------------

    def _round(self, how: str, *args: object) -> list[Call]:
        """Call all shards; return the calls with their results in order, or raise the error of the first
        failing shard."""
        team = self._working()
        sent = tuple(a.ref if isinstance(a, _Placed) else a for a in args)
        for handle in args:
            if isinstance(handle, _Placed):
                if handle.array.nbytes >= LARGE:
                    self._spread(handle)
                new = team.machines() - handle.machines
                handle.machines.update(new)
                self.traffic.sent += len(new) * handle.array.nbytes
        calls = team.call(how, sent, self.timeout)
        raise_first([call.found for call in calls])
        return calls

    def _spread(self, handle: _Placed) -> None:
        """Send a large vector to the machines in waves: each that has it is a source for the next. The last
        ones fetch it with the call itself."""
        cluster, workers = self._joined(), self._working().workers
        first = {worker.machine: worker for worker in reversed(workers)}
        waiting = [w for w in first.values() if w.actor and w.shards and w not in handle.sent]
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

    def _tree(self, method: str, args: tuple[object, ...]) -> Any:
        """The sum, merged by the workers if it is large; recomputed if a part of it is lost."""
        cluster = self._joined()
        lost: Exception | None = None
        for _ in range(MAX_DEATHS):
            least = max(SMALL, MUCH // len(self._working().workers))
            calls = self._round("held", least, method, *args)
            if not any(call.found is None for call in calls):
                return _whole(calls)
            sums = [call.held if call.found is None else call.found for call in calls]
            # one that answered may have died since, with shards that it took over
            adders = [call.worker for call in calls if call.worker.actor]
            step = 1
            while len(sums) > ARITY:
                step *= ARITY
                groups = [sums[k : k + ARITY] for k in range(0, len(sums), ARITY)]
                sums = [
                    adders[k * step % len(adders)].merge(group) for k, group in enumerate(groups)
                ]
            try:
                total = cluster.get(adders[0].total(sums))
            except cluster.lost as error:
                LOG.warning("partial sums were lost while they were added up; the call is repeated")
                lost = error
            else:
                self.traffic.received += size_of(total)
                return total
        raise RuntimeError(
            f"partial sums were lost {MAX_DEATHS} times in a row while they were added up; machines of the "
            f"cluster seem to fail one after another. The last loss: {lost}"
        )


def _whole(calls: list[Call]) -> Any:
    return join(in_order(chain.from_iterable(call.found for call in calls)))
