"""A cluster with a virtual clock, for the real Ray engine: actors are objects of this process.

:class:`SimulatedCluster` takes the place of :class:`maxmargin.engines.ray_cluster.Cluster`. Calls run the
real :class:`maxmargin.engines.ray_worker.MaxMarginWorker` at once, on shards that only note what their work
would cost (:func:`spend`) and whose vectors have a size but no content (:class:`Sized`). When a call begins
and ends follows from the costs, from the cores and the network of the machines, and from the messages before
it. Every byte between machines is counted.

Simplified: resources are assigned in the order of the calls; a transfer has the whole bandwidth of both
machines; the driver's own work between rounds costs nothing; a worker spends as long on a call as the driver.
"""

from __future__ import annotations

import heapq
import math
import pickle
import random
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from maxmargin.core.summation import AddsInPlace
from maxmargin.engines import ray_team, ray_worker
from maxmargin.engines.ray_worker import HUGE, MaxMarginWorker

#: bytes above which Ray sends a result through the object store
INLINE = 100_000
_CONTENT = memoryview(np.zeros(2**28, dtype=np.uint8)).toreadonly()  # pages are never touched
_DRIVER = "driver"
#: costs in seconds, noted by what runs at the moment: one entry for each shard
_spent: list[float] = []


def spend(seconds: float, new: bool = False) -> None:
    """Note a cost; ``new`` begins another task, which can run at the same time as others."""
    if new or not _spent:
        _spent.append(0.0)
    _spent[-1] += seconds


@dataclass(slots=True, eq=False)
class Sized(AddsInPlace):
    """A vector without content. An addition costs so many seconds a byte."""

    nbytes: int
    add: float

    def __add__(self, other: Sized) -> Sized:
        spend(self.add * self.nbytes)
        return self

    add_in_place = __add__

    def __reduce__(self) -> Any:
        return _received, (pickle.PickleBuffer(_CONTENT[: self.nbytes]), self.add)


def _received(content: Any, add: float) -> Sized:
    return Sized(memoryview(content).nbytes, add)


@dataclass(frozen=True, slots=True)
class Costs:
    """Unit costs: seconds, or seconds a byte."""

    #: time of the driver, and of the worker, for a call and its answer; the time of a message
    call: float
    latency: float
    #: seconds a byte to write a vector to the object store, to copy it from there, and to return it to the
    #: driver on the same machine
    put: float
    copy: float
    back: float
    bandwidth: float = 1.25e9
    #: seconds until the death of a machine is noticed, and until a new process runs
    detection: float = 10.0
    start: float = 3.0


@dataclass(slots=True, eq=False)
class Ref:
    """A result: when it is there, where, and its value or an error."""

    ready: float
    value: Any
    nbytes: int
    home: str
    #: machines that have a copy, and since when
    copies: dict[str, float]
    #: vectors of at least ``INLINE`` bytes in it
    vectors: int = 0
    error: Exception | None = None


class Lost(Exception):
    """A worker, or its result, is lost."""


@dataclass(slots=True, eq=False)
class Machine:
    """Cores and network; seconds at which they are free again."""

    cores: list[float]
    slowness: float = 1.0
    sends: float = 0.0
    receives: float = 0.0
    dies: float = math.inf


class SimulatedCluster:
    """The interface of the Ray engine's connection, on simulated machines.

    Parameters
    ----------
    costs : Costs
        Unit costs.
    machines : int
        Number of machines, besides the driver's.
    cores : int
        Cores of each.
    local : bool, default False
        Whether there is only one machine, which is also the driver's.
    """

    lost = (Lost,)
    alive = True

    def __init__(self, costs: Costs, machines: int, cores: int, local: bool = False) -> None:
        self.costs, self.now = costs, 0.0
        names = [_DRIVER] if local else [f"machine {k:04}" for k in range(machines)]
        self.hosts = {name: Machine([0.0] * cores) for name in names}
        self.hosts.setdefault(_DRIVER, Machine([0.0]))
        self._able = names
        #: vectors of at least ``INLINE`` bytes, and all bytes, by sender and receiver
        self.vectors: Counter[tuple[str, str]] = Counter()
        self.bytes: Counter[tuple[str, str]] = Counter()
        #: large vectors in the results of the workers' shards
        self.results: Counter[str] = Counter()
        self._random = random.Random(0)
        clock = SimpleNamespace(monotonic=lambda: self.now, perf_counter=lambda: self.now)
        ray_team.time = clock  # type: ignore[assignment]
        ray_worker.token_mode = lambda: True

    # -- what the engine calls -------------------------------------------------------------------------

    def leave(self) -> None: ...

    def pack(self, value: Any) -> bytes:
        return pickle.dumps(value)

    place = pack

    def put(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return value
        self.now += self.costs.put * value.nbytes
        size = value.nbytes
        return Ref(self.now, Sized(size, 0.0), size, _DRIVER, {_DRIVER: self.now}, size >= INLINE)

    def snapshot(self, ref: Ref) -> Any:
        return np.broadcast_to(np.zeros(1), ref.nbytes // 8)

    def machines(self) -> dict[str, int]:
        noticed = self.now - self.costs.detection
        return {n: len(self.hosts[n].cores) for n in self._able if self.hosts[n].dies > noticed}

    def start(
        self, number: int, n: int, taken: Counter[str], threads: int | None, most: int
    ) -> tuple[str, Any]:
        names = list(self.machines())
        name = names[number * len(names) // n]
        if taken[name] >= most:
            name = min(names, key=lambda other: taken[other])
        return name, Actor(self, name, threads or max(1, len(self.hosts[name].cores) // most))

    def kill(self, actor: Actor) -> None:
        actor.dies = min(actor.dies, self.now)

    def get(self, refs: Any) -> Any:
        if isinstance(refs, list):
            return [self.get(ref) for ref in refs]
        self.now = max(self.now, refs.ready)
        if refs.error is not None:
            raise refs.error
        self.now = self._arrival(refs, _DRIVER, self.now)
        self._drive()
        return _sent(refs.value)[0]

    def first(self, refs: list[Ref], seconds: float | None) -> Ref | None:
        ref = min(refs, key=lambda ref: ref.ready)
        if seconds is not None and ref.ready > self.now + seconds:
            self.now += seconds
            return None
        self.now = max(self.now, ref.ready)
        return ref

    def done(self, refs: list[Ref], seconds: float) -> set[Ref]:
        return {ref for ref in refs if ref.ready <= self.now + seconds}

    def why(self, death: Exception) -> str:
        return ""

    # -- machines --------------------------------------------------------------------------------------

    def charge_driver(self) -> float:
        """Add what was spent outside of any call, such as sums at the driver, to the clock; the time."""
        self.now = _work(self.hosts[_DRIVER], 1, self.now)
        return self.now

    def _drive(self) -> None:
        """The driver's part of a call or an answer."""
        spend(self.costs.call / 2)
        self.charge_driver()

    def run(self, actor: Actor, method: str, args: tuple[Any, ...], returns: int) -> Any:
        """Call a method of an actor."""
        self._drive()
        host, asked = self.hosts[actor.machine], self.now + self.costs.latency
        begins, values = max(asked, actor.free), []
        for argument in args:
            value, size, _ = _sent(argument.value if isinstance(argument, Ref) else argument)
            if isinstance(argument, Ref):
                begins = max(begins, self._arrival(argument, actor.machine, asked))
                if isinstance(argument.value, Sized) and size >= HUGE and method != "fetch":
                    spend(self.costs.copy * size)  # the worker copies it to memory of its own
            else:
                self.bytes[_DRIVER, actor.machine] += size
            values.append(value)
        spend(self.costs.call / 2)
        begins = _work(host, 1, begins)
        answer = getattr(actor.worker, method)(*values)
        ends = _work(host, actor.threads, begins)
        dies = min(host.dies, actor.dies)
        refs = []
        for part in answer if returns > 1 else (answer,):
            value, size, vectors = _sent(part)
            if method in ("sums", "held"):
                self.results[actor.machine] += vectors
            spend(self.costs.back * size if size >= INLINE else 0.0)
            if part is not None:
                spend(self.costs.call / 2)
            ends = _work(host, 1, ends)
            there = ends + self.costs.latency
            ref = Ref(there, value, size, actor.machine, {actor.machine: ends}, vectors)
            if ends > dies:
                ref.error = Lost(f"{actor.machine} died")
                ref.ready = max(asked, dies + self.costs.detection * (host.dies < math.inf))
            refs.append(ref)
        actor.free = ends
        return refs if returns > 1 else refs[0]

    def _arrival(self, ref: Ref, name: str, asked: float) -> float:
        """When a machine has a copy of a result that it asks for at some time; the copy is a source, too."""
        if ref.nbytes < INLINE:
            if ref.home != name:
                self.bytes[ref.home, name] += ref.nbytes
            return max(asked, ref.ready)
        if name in ref.copies:
            return max(asked, ref.copies[name])
        have = [m for m, since in ref.copies.items() if since <= asked] or [ref.home]
        source = self._random.choice(have)
        sender, receiver = self.hosts[source], self.hosts[name]
        begins = max(asked, ref.ready, sender.sends, receiver.receives)
        ends = begins + ref.nbytes / self.costs.bandwidth
        sender.sends = receiver.receives = ref.copies[name] = ends
        self.bytes[source, name] += ref.nbytes
        self.vectors[source, name] += ref.vectors
        return ends


class Actor:
    """The handle of an actor."""

    def __init__(self, cluster: SimulatedCluster, machine: str, threads: int) -> None:
        self.cluster, self.machine, self.threads = cluster, machine, threads
        self.worker = MaxMarginWorker(1)
        self.free, self.dies = cluster.now + cluster.costs.start, math.inf

    def __getattr__(self, name: str) -> Method:
        if name.startswith("_"):
            raise AttributeError(name)
        return Method(self, name)


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an actor, as Ray's handles have them."""

    actor: Actor
    name: str
    returns: int = 1

    def options(self, num_returns: int) -> Method:
        return Method(self.actor, self.name, num_returns)

    def remote(self, *args: Any) -> Any:
        return self.actor.cluster.run(self.actor, self.name, args, self.returns)


def _work(host: Machine, threads: int, begins: float) -> float:
    """When what was spent is done: the tasks, in order, by so many threads on the cores of a machine."""
    free = [begins] * threads
    for cost in _spent:
        ready = heapq.heappop(free)
        # the core that became free last before, so that no time of a core is lost; else the first to be free
        core = min(
            range(len(host.cores)), key=lambda k: (max(0.0, host.cores[k] - ready), -host.cores[k])
        )
        host.cores[core] = max(ready, host.cores[core]) + cost * host.slowness
        heapq.heappush(free, host.cores[core])
    _spent.clear()
    return max(free)


def _sent(value: Any) -> tuple[Any, int, int]:
    """A copy of a value through pickle, its bytes, and the number of large vectors in it."""
    buffers: list[pickle.PickleBuffer] = []
    plain = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    sizes = [buffer.raw().nbytes for buffer in buffers]
    received = pickle.loads(plain, buffers=buffers)
    return received, len(plain) + sum(sizes), sum(size >= INLINE for size in sizes)
