"""Structured risks over functions of a kernel with sampled planes, for
:class:`maxmargin.solvers.SampledCuts`.

    R(w) = sum_i s_i max_y^ [Delta(y_i, y^) + <w, dPsi_i(y^)>]        (or with slack rescaling)

with phi(row) in place of the rows of the inputs (``Task.kernel_inputs``). Each input is used in three forms:

    one-hot rows e_r                Psi gives *coefficients*: w = sum_r phi(row_r) (x) V_r has entries V
    kernel rows (k(row, row_r))_r   Psi gives *values*: <w, Psi(x, y)> = <V, Psi(x with kernel rows, y)>
    a root of k(row, row')          Psi has the same *norm* as in the kernel's space

where r runs over all rows of the training inputs. So a plane sampled from a few examples is a sparse V, the
oracle at a combination of planes is the task's own oracle at the combination of their V, and inner products
of planes are products of values and coefficients. The layout of w does not matter. A point is the short
vector of the planes' coefficients.

Cost for N rows in total: every evaluation needs the kernel rows of all inputs, N^2 numbers. They are cached
if they fit in memory, and otherwise recomputed for the rows of planes in use. There is no line search,
because the risk along a line is not known without the oracle.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.cut import Cut
from maxmargin.core.sampling import Draw, Terms
from maxmargin.core.vectors import (
    Array,
    IntArray,
    SparseVector,
    Vector,
    add_scaled,
    dot,
    frozen,
    sparsify,
)
from maxmargin.kernels import Kernel, KernelRows, center_of
from maxmargin.risks.lines.evaluation import check_weights
from maxmargin.risks.scores.wide_columns import GramNorm
from maxmargin.risks.structured.python_examples import Rescaling
from maxmargin.tasks.base import Bounded, Task

#: maximum number of planes held at a time
SLOTS = 2000
#: number of rows whose kernel rows are computed at a time if not all are cached
ROWS = 512


class _PythonExamples:
    """Examples with the Python oracle of a task; of an answer, only the output is stored."""

    def __init__(
        self, task: Task, X: Sequence[Any], Y: Sequence[Any], rescaling: Rescaling
    ) -> None:
        self._task, self._X, self._Y, self._slack = task, X, Y, rescaling == "slack"

    def oracle(self, w: Array, lo: int, hi: int) -> Answers:
        """The oracle for one example at a time."""
        (i,), task = range(lo, hi), self._task
        x, y = self._X[i], self._Y[i]
        ask = task.slack_augmented_inference if self._slack else task.loss_augmented_inference
        found, bound = ask(x, y, w), None
        if isinstance(found, Bounded):
            found, bound = found.y, found.upper
        loss = float(task.loss(y, found))
        score = dot(task.difference(x, found, y), w)
        value = loss * (1.0 + score) if self._slack else loss + score
        upper = value
        if bound is not None:
            upper = bound if self._slack else bound - dot(task.joint_feature(x, y), w)
        one = (np.array([loss]), np.array([value]), np.array([upper]))
        return Answers(lo, hi, found, *one)

    def cut(self, answers: Answers, weights: Array) -> Cut:
        """The plane of one answer."""
        i, loss = answers.lo, float(answers.losses[0])
        plane = self._task.difference(self._X[i], answers.labelings, self._Y[i])
        whole = plane.to_dense() if isinstance(plane, SparseVector) else np.array(plane)
        factor = float(weights[0]) * (loss if self._slack else 1.0)
        return Cut(float(weights[0]) * loss, sparsify(factor * whole))


class SampledStructuredRisk:
    """The structured risk of a task with a kernel, over combinations of sampled planes.

    Parameters
    ----------
    task : Task
        A task that defines ``kernel_inputs``; its ``setup`` is called here, on inputs with as many columns as
        there are rows in total.
    X, Y : sequences
        Inputs and labeled outputs.
    rows : array or CSR matrix
        The rows of all inputs, stacked.
    ends : array of int
        Where the rows of each input end.
    kernel : Kernel
        The kernel.
    rescaling : {"margin", "slack"}
        Margin or slack rescaling of the loss.
    sample_weight : array, optional
        Weight of each example.
    memory : int, default 2**29
        Bytes for kernel values.

    Attributes
    ----------
    regularizer : GramNorm
        Half the squared norm of points.
    kernel_values : int
        Number of kernel values computed so far.
    """

    oracle: OracleKind = "sampled"
    lower_bound = 0.0
    n_blocks = 1
    dim = SLOTS

    def __init__(
        self,
        task: Task,
        X: Sequence[Any],
        Y: Sequence[Any],
        rows: Any,
        ends: IntArray,
        kernel: Kernel,
        *,
        rescaling: Rescaling = "margin",
        sample_weight: Any = None,
        memory: int = 2**29,
    ) -> None:
        self.task, self._X, self._Y, self._rescaling = task, X, Y, rescaling
        self._ends = np.asarray(ends, dtype=np.int64)
        self._starts = np.concatenate([[0], self._ends[:-1]])
        center = center_of(rows) if kernel.shift_invariant else None
        self._rows = KernelRows(kernel, rows, np.float64, center)
        self.n_examples, self.n_rows = len(Y), int(rows.shape[0])
        self._weight = check_weights(sample_weight, self.n_examples)
        self._small = copy.deepcopy(task)
        blank = np.broadcast_to(np.zeros(self.n_rows), rows.shape[:1] + (self.n_rows,))
        empty = [self._with_rows(i, blank[: self._count(i)]) for i in range(self.n_examples)]
        self.width = int(task.setup(empty, Y))
        self.kernel_values = 0
        self._kept: Any = None
        if 12 * self.n_rows**2 <= memory:  # 12 bytes: the task may store a sparse matrix
            K = self._rows.block(self._rows)
            self.kernel_values += K.size
            inputs = [self._with_rows(i, K[self._part(i)]) for i in range(self.n_examples)]
            self._kept = self._examples(self.task, inputs, range(self.n_examples))
        self._lengths = self._own_lengths()
        #: of each plane: its coefficients, and the examples it was sampled from
        self._planes: dict[int, tuple[Vector, IntArray]] = {}
        self._gram = np.zeros((SLOTS, SLOTS))
        self.regularizer = GramNorm(times_gram=lambda u: self._gram @ u)
        self._live: weakref.WeakSet[DrawnEvaluation] = weakref.WeakSet()

    # -- inputs ------------------------------------------------------------------------------------------

    def _part(self, i: int) -> slice:
        return slice(int(self._starts[i]), int(self._ends[i]))

    def _count(self, i: int) -> int:
        return int(self._ends[i] - self._starts[i])

    def _with_rows(self, i: int, rows: Any) -> Any:
        return self.task.with_kernel_inputs(self._X[i], rows)

    def _examples(self, task: Task, inputs: Sequence[Any], ids: Any) -> Any:
        """Examples in the task's compiled form, if there is one."""
        Y = [self._Y[i] for i in ids]
        packed = task.pack(inputs, Y) if self._rescaling == "margin" else task.pack_slack(inputs, Y)
        return _PythonExamples(task, inputs, Y, self._rescaling) if packed is None else packed

    def _one_hot(self, ids: Any) -> Any:
        inputs = []
        for i in ids:
            rows = np.zeros((self._count(i), self.n_rows))
            rows[np.arange(len(rows)), np.arange(self._starts[i], self._ends[i])] = 1.0
            inputs.append(self._with_rows(i, rows))
        return self._examples(self.task, inputs, ids)

    def _with_values(self, ids: Any) -> tuple[Any, Any]:
        """These examples with kernel rows, and their positions; columns of rows in no plane are zero."""
        if self._kept is not None:
            return self._kept, ids
        columns = self._columns(examples for _, examples in self._planes.values())
        used, inputs = self._rows.take(columns), []
        for i in ids:
            rows = np.zeros((self._count(i), self.n_rows))
            rows[:, columns] = self._rows.take(self._part(i)).block(used)
            self.kernel_values += len(rows) * len(columns)
            inputs.append(self._with_rows(i, rows))
        return self._examples(self.task, inputs, ids), np.arange(len(inputs))

    def _columns(self, groups: Any) -> IntArray:
        """The rows of these examples."""
        there = np.zeros(self.n_rows, dtype=bool)
        for i in {int(i) for group in groups for i in group}:
            there[self._part(i)] = True
        return np.flatnonzero(there)

    def _own_lengths(self) -> Any:
        """Examples whose joint features have the norms they have in the kernel's space."""
        widest = max(1, max(map(self._count, range(self.n_examples))))
        small, inputs = self._small, []
        for i in range(self.n_examples):
            own = self._rows.take(self._part(i))
            values, vectors = np.linalg.eigh(own.block(own))
            rows = np.zeros((len(own), widest))
            rows[:, : len(own)] = vectors * np.sqrt(np.maximum(values, 0.0))
            inputs.append(self._with_rows(i, rows))
        small.setup(inputs, self._Y)
        return self._examples(small, inputs, range(self.n_examples))

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        return Capabilities(numbered_planes=self)

    # -- points ------------------------------------------------------------------------------------------

    def coefficients(self, w: Array) -> tuple[Array, IntArray]:
        """The weights V of a combination of planes, and the rows they refer to."""
        V, used = np.zeros(self.width), []
        for slot in np.flatnonzero(w):
            plane, examples = self._planes[int(slot)]
            add_scaled(V, float(w[slot]), plane)
            used.append(examples)
        return V, self._columns(used)

    def evaluate(self, w: Array, *, exact: bool = True) -> DrawnEvaluation:
        """Call the oracle for all examples."""
        V, _ = self.coefficients(w)
        answers: list[Answers] = []
        if self._kept is not None:
            answers = [self._ask(self._kept, V, i, i) for i in range(self.n_examples)]
        else:
            lo = 0
            while lo < self.n_examples:
                hi = int(np.searchsorted(self._ends, self._starts[lo] + ROWS, side="right"))
                hi = min(self.n_examples, max(lo + 1, hi))
                examples, _ = self._with_values(range(lo, hi))
                answers += [self._ask(examples, V, i - lo, i) for i in range(lo, hi)]
                lo = hi
        found = DrawnEvaluation(self, frozen(w), answers)
        self._live.add(found)
        return found

    def _ask(self, examples: Any, V: Array, k: int, i: int) -> Answers:
        try:
            answer: Answers = examples.oracle(V, k, k + 1)
        except Exception as error:
            error.add_note(f"raised by the task's oracle for example {i}")
            raise
        return replace(answer, lo=i, hi=i + 1)

    def terms(self, at: DrawnEvaluation) -> Terms:
        """The exact cut at a point, example by example, evaluated there."""
        s, one = self._weight, np.ones(1)
        cuts = [self._lengths.cut(answer, one) for answer in at.answers]
        sizes = s * np.sqrt([dot(cut.plane, cut.plane) for cut in cuts])
        offset, n = float(s @ at.losses), self.n_examples
        return Terms(
            fixed=offset,
            pulls=np.where(sizes > 0.0, s * (at.values - at.losses), 0.0),
            sizes=sizes,
            losses=s * at.values,
            offset=offset,
            ceiling=n * float((s * at.losses).max(initial=0.0)),
            radius=n * float(sizes.max(initial=0.0)),
        )

    def sampled_cut(self, at: DrawnEvaluation, draw: Draw) -> Cut:
        """A new plane from the sampled examples, in its own slot."""
        examples, place = np.unique(draw.examples, return_inverse=True)
        factors = np.bincount(place, draw.factors, len(examples)) * self._weight[examples]
        slot = next((k for k in range(SLOTS) if k not in self._planes), None)
        if slot is None:
            raise RuntimeError(f"{SLOTS} planes are in use: use a smaller C or a larger tol.")
        places = np.arange(len(examples))
        plane = self._sum(self._one_hot(examples), places, at, examples, factors)
        self._planes = {**self._planes, slot: (sparsify(plane), examples)}
        values = self._sum(*self._with_values(examples), at, examples, factors)
        products = np.zeros(SLOTS)
        for k, (other, _) in self._planes.items():
            products[k] = dot(other, values)
        self._gram[slot], self._gram[:, slot] = products, products
        return Cut(
            float(self._weight @ at.losses), SparseVector(np.array([slot]), np.ones(1), SLOTS)
        )

    def _sum(
        self, packed: Any, places: Any, at: DrawnEvaluation, examples: IntArray, factors: Array
    ) -> Array:
        out = np.zeros(self.width)
        for k, i, factor in zip(places, examples, factors, strict=True):
            answer = replace(at.answers[int(i)], lo=int(k), hi=int(k) + 1)
            add_scaled(out, 1.0, packed.cut(answer, np.array([factor])).plane)
        return out

    def tidy(self, state: Any) -> None:
        """Between two iterations: drop planes that neither the bundle nor a point needs."""
        state.dual = None  # it would not prove a bound
        needed = {int(k) for plane in state.memory.planes for k in _slots(plane)}
        for w in (state.w, *(evaluation.w for evaluation in self._live)):
            needed.update(np.flatnonzero(w).tolist())
        self._planes = {k: plane for k, plane in self._planes.items() if k in needed}


class DrawnEvaluation:
    """A structured risk with a kernel evaluated at a point; its cuts are sampled."""

    def __init__(self, risk: SampledStructuredRisk, w: Array, answers: list[Answers]) -> None:
        self.w, self.answers = w, answers
        self._risk = risk
        self.losses: Array = np.array([float(a.losses[0]) for a in answers])
        self.values: Array = np.array([float(a.values[0]) for a in answers])
        self.value = float(risk._weight @ self.values)
        self.upper = float(risk._weight @ [float(a.uppers[0]) for a in answers])

    def terms(self, trial: Any, examples: IntArray | None = None) -> Terms:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        if id(trial) != id(self) or examples is not None:
            raise TypeError(
                "cuts of a structured risk are sampled at the point of the oracle calls only."
            )
        return self._risk.terms(self)

    def sampled_cut(self, draw: Draw, whole: bool) -> Cut:
        """See :class:`maxmargin.core.contract.sampled.SampledEvaluation`."""
        return self._risk.sampled_cut(self, draw)

    def cut(self) -> Cut:
        """The exact cut: all examples with factor 1."""
        n = len(self.answers)
        return self._risk.sampled_cut(self, Draw(np.arange(n), np.ones(n)))

    def cuts(self) -> list[Cut]:
        """The cut as the only block."""
        return [self.cut()]


def _slots(plane: Any) -> IntArray:
    return plane.indices if isinstance(plane, SparseVector) else np.flatnonzero(plane)
