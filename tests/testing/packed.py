"""A slow, plain implementation of packed examples: what check_examples is tried on.

It lists nothing and compiles nothing: every answer comes from the task's own verbs. Its parts are
written to be spoiled one at a time by subclasses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core import Answers, Cut, SweepStats
from maxmargin.testing.reference import dense, violation


class NaiveExamples:
    def __init__(self, task, X, Y, dim):
        self.task, self.X, self.Y, self.dim = task, X, Y, dim

    def __len__(self) -> int:
        return len(self.X)

    def plane(self, i: int, y_hat: Any) -> np.ndarray:
        task, x = self.task, self.X[i]
        return dense(task.joint_feature(x, y_hat)) - dense(task.joint_feature(x, self.Y[i]))

    def oracle(self, w, lo, hi) -> Answers:
        found = [self.task.loss_augmented_inference(self.X[i], self.Y[i], w) for i in range(lo, hi)]
        pairs = [(i, o) for i, o in zip(range(lo, hi), found, strict=True)]
        losses = np.array([self.task.loss(self.Y[i], o) for i, o in pairs])
        values = np.array([violation(self.task, self.X[i], self.Y[i], o, w) for i, o in pairs])
        return Answers(lo, hi, found, losses, values, values.copy())

    def cut(self, answers, weights) -> Cut:
        plane = np.zeros(self.dim)
        for k, y_hat in enumerate(answers.labelings):
            plane += weights[k] * self.plane(answers.lo + k, y_hat)
        return Cut(float(weights @ answers.losses), plane)

    def cache(self, lo, hi, size):
        return NaiveCache(self, lo, hi, size)

    def working_sets(self, caps):
        return NaiveSets(self, caps)

    def predict(self, w, lo, hi):
        return [self.task.inference(x, w) for x in self.X[lo:hi]]


class NaiveCache:
    """Per example a list of labelings, the most recently used last."""

    def __init__(self, examples, lo, hi, size):
        self.examples, self.lo, self.size = examples, lo, size
        self.held = [[] for _ in range(hi - lo)]

    @property
    def pointers(self):
        return np.cumsum([0] + [len(h) for h in self.held])

    def _flat(self):
        return [(k, y_hat) for k, h in enumerate(self.held) for y_hat in h]

    def insert(self, answers):
        task = self.examples.task
        for k, y_hat in enumerate(answers.labelings):
            if not task.same(y_hat, self.examples.Y[self.lo + k]):
                rest = [h for h in self.held[k] if not task.same(h, y_hat)]
                self.held[k] = [*rest, y_hat][-self.size :]

    def scores(self, w):
        ex, lo = self.examples, self.lo
        return np.array(
            [violation(ex.task, ex.X[lo + k], ex.Y[lo + k], o, w) for k, o in self._flat()]
        )

    def touch(self, chosen):
        flat = self._flat()
        for j in chosen:
            if j >= 0:
                k, y_hat = flat[j]
                self.held[k] = [h for h in self.held[k] if h is not y_hat] + [y_hat]

    def cut(self, chosen, weights):
        flat, ex = self._flat(), self.examples
        offset, plane = 0.0, np.zeros(ex.dim)
        for j, s in zip(chosen, weights, strict=True):
            if j >= 0:
                k, y_hat = flat[j]
                offset += s * ex.task.loss(ex.Y[self.lo + k], y_hat)
                plane += s * ex.plane(self.lo + k, y_hat)
        return Cut(offset, plane)


class NaiveSets:
    """Block steps by pairwise exchanges (algorithms.md, section 7), many per visit."""

    def __init__(self, examples, caps):
        self.examples, self.caps = examples, np.asarray(caps, float)
        self.w = np.zeros(examples.dim)
        # per example (labeling, offset, plane, age); number 0 is the true output
        self.sets = [[(y, 0.0, np.zeros(examples.dim))] for y in examples.Y]
        self.alpha = [[float(c)] for c in self.caps]
        self.gaps = np.full(len(examples), np.inf)
        self.gaps[self.caps == 0.0] = 0.0

    n_examples = property(lambda self: len(self.sets))
    n_planes = property(lambda self: sum(len(s) - 1 for s in self.sets))
    n_support = property(lambda self: sum(a > 0 for al in self.alpha for a in al[1:]))

    def _add(self, i, y_hat) -> int:
        task = self.examples.task
        if any(task.same(y_hat, held) for held, _, _ in self.sets[i]):
            return 0
        loss = task.loss(self.examples.Y[i], y_hat)
        self.sets[i].append((y_hat, loss, self.examples.plane(i, y_hat)))
        self.alpha[i].append(0.0)
        return 1

    def _gains(self, i):
        return np.array([l + p @ self.w for _, l, p in self.sets[i]])

    def _gap(self, i) -> float:
        g = self._gains(i)
        return float(self.caps[i] * g.max() - np.dot(self.alpha[i], g))

    def _step(self, i):
        alpha, planes = self.alpha[i], [p for _, _, p in self.sets[i]]
        for _ in range(10 * len(planes)):
            g = self._gains(i)
            up = int(g.argmax())
            down = min((k for k, a in enumerate(alpha) if a > 0), key=lambda k: g[k])
            square = float(((planes[up] - planes[down]) ** 2).sum())
            if g[up] - g[down] <= 1e-12 or square == 0.0:
                break
            a = min((g[up] - g[down]) / square, alpha[down])
            alpha[up] += a
            alpha[down] -= a
            self.w = self.w - a * (planes[up] - planes[down])

    def stream(self, order, skip_below):
        calls = new = 0
        total = 0.0
        for i in order:
            if self.caps[i] > 0.0 and self.gaps[i] >= skip_below:
                answers = self.examples.oracle(self.w, i, i + 1)
                new += self._add(i, answers.labelings[0])
                calls += 1
                self.gaps[i] = self._gap(i)
                self._step(i)
            total += self.gaps[i]
        return SweepStats(calls, total, new)

    def begin(self, order, skip_below):
        return np.array(
            [i for i in order if self.caps[i] > 0.0 and self.gaps[i] >= skip_below], dtype=int
        )

    def absorb(self, answers):
        new = 0
        for part in answers:
            new += self._add(part.lo, part.labelings[0])
            self.gaps[part.lo] = self._gap(part.lo)
            self._step(part.lo)
        return SweepStats(len(answers), sum(self.gaps[part.lo] for part in answers), new)

    def epoch(self, order):
        total = 0.0
        for i in order:
            if self.caps[i] > 0.0:
                total += self._gap(i)
                self._step(i)
        return SweepStats(0, total, 0)

    def confirm(self, answers):
        value = 0.0
        for part in answers:
            for k, y_hat in enumerate(part.labelings):
                i = part.lo + k
                if self.caps[i] > 0.0:
                    self._add(i, y_hat)
                    value += self.caps[i] * self._gains(i).max()
                    self.gaps[i] = self._gap(i)
        return value, value

    def drop_idle(self, age):
        for i, alpha in enumerate(self.alpha):
            keep = [k for k, a in enumerate(alpha) if k == 0 or a > 0.0]
            self.sets[i] = [self.sets[i][k] for k in keep]
            self.alpha[i] = [alpha[k] for k in keep]

    def dual_value(self):
        self.w = -sum(
            a * p
            for s, al in zip(self.sets, self.alpha, strict=True)
            for (_, _, p), a in zip(s, al, strict=True)
        )
        gain = sum(
            a * l
            for s, al in zip(self.sets, self.alpha, strict=True)
            for (_, l, _), a in zip(s, al, strict=True)
        )
        return float(gain - 0.5 * self.w @ self.w)

    def state(self):
        return {"alpha": self.alpha, "labelings": [[y for y, _, _ in s] for s in self.sets]}
