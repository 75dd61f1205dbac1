"""Working sets in plain Python: the referee of the compiled ones. Slow, short, and one thing at a time."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.simplex import simplex_gap, solve_simplex
from maxmargin.core import SquaredNorm, SweepStats
from maxmargin.core.vectors import add_scaled, dot


class _Set:
    """The planes of one example; plane 0 is the truth."""

    def __init__(self, cap):
        self.labelings, self.losses = [None], np.zeros(1)
        self.alpha, self.used = np.array([cap]), np.zeros(1, dtype=int)
        self.gap = np.inf if cap > 0.0 else 0.0

    def add(self, labeling, tick):
        self.labelings.append(labeling)
        self.losses = np.append(self.losses, labeling.loss)
        self.alpha, self.used = np.append(self.alpha, 0.0), np.append(self.used, tick)

    def distances(self):
        P = [None if p is None else p.plane for p in self.labelings]
        G = np.array([[0.0 if p is None or q is None else dot(p, q) for q in P] for p in P])
        return np.maximum(np.diag(G)[:, None] + np.diag(G) - 2 * G, 0.0)

    def gradients(self, w):
        return self.losses + [0.0 if p is None else dot(p.plane, w) for p in self.labelings]


class PythonWorkingSets:
    """See :class:`maxmargin.core.WorkingSets`."""

    solve = staticmethod(solve_simplex)  # a test may cripple it

    def __init__(self, examples, caps, regularizer=None):
        self.examples, self.caps = examples, np.array(caps, dtype=float)
        self.sets = [_Set(cap) for cap in self.caps]
        self.regularizer = regularizer or SquaredNorm()
        self.u, self.tick = np.zeros(examples.dim), 0

    @property
    def w(self):
        return self.regularizer.primal(self.u)

    @property
    def n_examples(self):
        return len(self.sets)

    @property
    def n_planes(self):
        return sum(len(held.labelings) - 1 for held in self.sets)

    @property
    def n_support(self):
        return sum(int(np.count_nonzero(held.alpha[1:])) for held in self.sets)

    @property
    def batch_size(self):
        return 1

    def stream(self, order, skip_below):
        self.tick += 1
        calls = new = 0
        total = 0.0
        for i in order:
            held = self.sets[i]
            if self.caps[i] > 0.0 and held.gap >= skip_below:
                answer = self.examples.oracle(self.w, int(i), int(i) + 1)
                calls += 1
                new += self._take(held, answer.labelings[0])
                held.used[held.alpha > 0.0] = self.tick
                held.gap = self._step(held, float(answer.values[0]))
                held.used[held.alpha > 0.0] = self.tick
            total += held.gap
        return SweepStats(calls, total, new)

    def epoch(self, order):
        visited = [self.sets[i] for i in order if len(self.sets[i].labelings) > 1]
        return SweepStats(0, sum(self._step(held, 0.0) for held in visited), 0)

    def _take(self, held, answer):
        if answer.loss == 0.0 and dot(answer.plane, answer.plane) == 0.0:
            return False
        for j, other in enumerate(held.labelings):
            if other is not None and self.examples.same(other, answer):
                held.used[j] = self.tick
                return False
        held.add(answer, self.tick)
        return True

    def _step(self, held, top):
        g, cap = held.gradients(self.w), held.alpha.sum()
        gap = float(simplex_gap(held.alpha, g))
        before, seen = held.alpha.copy(), gap + cap * max(0.0, top - float(g.max()))
        if gap > 0.0:
            self.solve(held.alpha, g, held.distances(), max(1e-2 * gap, 1e-14 * cap), 1000)
        for j, change in enumerate(held.alpha - before):
            if change != 0.0 and j > 0:
                add_scaled(self.u, -change, held.labelings[j].plane)
        return seen

    def confirm(self, answers):
        self.tick += 1
        value = upper = 0.0
        for part in answers:
            for k, i in enumerate(range(part.lo, part.hi)):
                cap, held = self.caps[i], self.sets[i]
                if cap > 0.0:
                    held.used[held.alpha > 0.0] = self.tick
                    self._take(held, part.labelings[k])
                    g = held.gradients(self.w)
                    top = max(part.values[k], g.max())
                    held.gap = float(held.alpha @ (top - g))
                    value += cap * part.values[k]
                    upper += cap * part.uppers[k]
        return value, upper

    def drop_idle(self, age):
        for held in self.sets:
            kept = [
                j
                for j in range(len(held.labelings))
                if j == 0 or held.alpha[j] > 0.0 or held.used[j] > self.tick - age
            ]
            held.labelings = [held.labelings[j] for j in kept]
            held.losses, held.alpha, held.used = (
                a[kept] for a in (held.losses, held.alpha, held.used)
            )

    def dual_value(self):
        self.u, offset = np.zeros(self.examples.dim), 0.0
        for held in self.sets:
            offset += float(held.alpha @ held.losses)
            for a, labeling in zip(held.alpha[1:], held.labelings[1:], strict=True):
                add_scaled(self.u, -a, labeling.plane)
        return offset - 0.5 * float(self.w @ self.w)

    def rescale(self, caps):
        for held, old, new in zip(self.sets, self.caps, caps, strict=True):
            held.alpha *= new / old if old > 0.0 else 0.0
            held.alpha[0] += new if old == 0.0 else 0.0
            held.gap = np.inf if new > 0.0 else 0.0
        self.caps = np.array(caps, dtype=float)
        self.dual_value()

    def state(self):
        return {
            "labelings": [[p.y for p in held.labelings[1:]] for held in self.sets],
            "alpha": [held.alpha.copy() for held in self.sets],
        }
