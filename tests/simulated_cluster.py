"""A cluster in this process, for thousands of deaths: the Ray engine runs as it is, its calls are answered at
once, and actors die, hang, and return with their machines as a test wants."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import count

from maxmargin.engines.ray_worker import MaxMarginWorker


class Lost(Exception):
    """A worker, or its result, is lost."""


class Killed(BaseException):
    """Raised by a shard that kills its process."""


class Ref:
    """A result: a value, an error, or nothing yet."""

    def __init__(self, value=None, error=None, ready=True):
        self.value, self.error, self.ready = value, error, ready


class Actor:
    """A worker: MaxMarginWorker with the interface of a Ray actor."""

    def __init__(self, cluster, machine, number):
        self.cluster, self.machine, self.number = cluster, machine, number
        self.alive, self.hangs = True, False
        self.worker = MaxMarginWorker(1)

    def __getattr__(self, name):
        return _Method(self, name)

    def call(self, name, args, n_returns):
        self.cluster.calls += 1
        if self.cluster.before is not None:
            self.cluster.before(self, name)
        lost = [a.error for a in args if isinstance(a, Ref) and a.error is not None]
        found, error = None, lost[0] if lost else None
        if self.alive and error is None:
            try:
                args = [a.value if isinstance(a, Ref) else a for a in args]
                found = getattr(self.worker, name)(*args)
                found = pickle.loads(pickle.dumps(found, protocol=5))
            except Killed:
                self.alive = False
        if not self.alive:
            error = Lost("it is dead")
        parts = [None, None] if found is None else found
        values = parts if n_returns == 2 else [found]
        refs = [Ref(value, error, not self.hangs) for value in values]
        return refs if n_returns == 2 else refs[0]


class _Method:
    def __init__(self, actor, name, n_returns=1):
        self.actor, self.name, self.n_returns = actor, name, n_returns

    def options(self, num_returns):
        return _Method(self.actor, self.name, num_returns)

    def remote(self, *args):
        return self.actor.call(self.name, args, self.n_returns)


class SimulatedCluster:
    """Takes the place of :class:`maxmargin.engines.ray_cluster.Cluster`."""

    alive, lost = True, (Lost,)

    def __init__(self, names):
        self.names = list(names)
        self.actors, self.calls, self._numbers = [], 0, count()
        #: called with (actor, method) before each call
        self.before = None

    # -- what the engine uses

    def machines(self):
        return dict.fromkeys(sorted(self.names), 1)

    def start(self, number, n_workers, taken, threads, most):
        names = sorted(self.names)
        machine = names[number * len(names) // n_workers]
        if taken[machine] >= most:
            machine = min(names, key=lambda name: taken[name])
        self.actors.append(Actor(self, machine, next(self._numbers)))
        return machine, self.actors[-1]

    def put(self, value):
        return value

    pack = place = staticmethod(pickle.dumps)
    snapshot = staticmethod(lambda ref: ref)

    def get(self, refs):
        if isinstance(refs, list):
            return [self.get(ref) for ref in refs]
        assert refs.ready, "the driver would wait for ever"
        if refs.error is not None:
            raise refs.error
        return refs.value

    def first(self, refs, seconds):
        return next((ref for ref in refs if ref.ready), None)

    def done(self, refs, seconds):
        return {ref for ref in refs if ref.ready}

    def why(self, error):
        return "The test wanted it."

    def kill(self, actor):
        actor.alive = False

    def leave(self):
        pass

    # -- what tests use

    def living(self):
        return [actor for actor in self.actors if actor.alive]

    def kill_machine(self, name):
        self.names.remove(name)
        for actor in self.living():
            if actor.machine == name:
                actor.alive = False

    def homes(self, engine):
        """The numbers of the actors that have the shards."""
        team = engine._team
        places = {shard: worker.actor.number for worker in team.workers for shard in worker.shards}
        assert sum(len(worker.shards) for worker in team.workers) == len(places)
        return [places[shard] for shard in sorted(places)]

    def loads(self, engine):
        """How many workers have how many shards."""
        return Counter(len(worker.shards) for worker in engine._team.workers)
