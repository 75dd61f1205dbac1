"""How the weights of an estimator are learned, from ``prior``, ``fixed``, ``nonnegative`` and
``nonpositive``.

All of them become one change of variables and one norm: see :mod:`maxmargin.risks.weight_map`. A
constraint w_k >= 0 becomes v_k >= -m_k / t_k if the weight has mean m_k and standard deviation t_k.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import largest_square
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.losses import ScoreLoss
from maxmargin.risks.priors.centered_risk import CenteredRisk
from maxmargin.risks.priors.mapped_risk import MappedRisk, stretched
from maxmargin.risks.structured.risk import TaskRisk
from maxmargin.risks.weight_map import WeightMap

PARAMETERS = ("prior", "fixed", "nonnegative", "nonpositive")


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """How the weights of one problem are learned."""

    norm: SquaredNorm
    map: WeightMap | None = None

    def risk(self, risk: Any) -> Any:
        """The risk that a solver sees."""
        if self.map is None:
            return risk
        return (CenteredRisk if isinstance(risk, TaskRisk) else MappedRisk)(risk, self.map)

    @property
    def center_only(self) -> bool:
        """Whether the prior has only a center."""
        plain = not len(self.norm.nonnegative)
        return self.map is not None and not self.map.stretches and plain

    def whole(self, w: Array) -> Array:
        """The user-space weights."""
        return w if self.map is None else self.map.whole(w)

    def learned(self, w: Array) -> Array:
        """The weights in the variables of the solver."""
        return w if self.map is None else self.map.learned(w)

    def with_free(self, free: IntArray, near: float, growth: float, first: float) -> Weighing:
        """The same, with some weights unpenalized; see :meth:`SquaredNorm.with_free`."""
        return replace(self, norm=self.norm.with_free(free, near, growth, first))


def given_weight_parameters(estimator: Any) -> list[str]:
    """The names of the parameters about weights that were given."""
    return [name for name in PARAMETERS if _given(getattr(estimator, name, None))]


def _given(value: object) -> bool:
    return value is not None and not (hasattr(value, "__len__") and len(value) == 0)


def weigh(
    estimator: Any,
    n: int,
    names: Sequence[Hashable] | None = None,
    *,
    columns: int = 1,
    intercept: float = 0.0,
    column: int | None = None,
) -> Weighing:
    """Validate the parameters for ``n`` weights in each of ``columns`` columns.

    ``intercept`` is the constant feature whose weight comes last, 0 for none. ``column`` selects one of
    several columns that are learned separately.
    """
    if not given_weight_parameters(estimator):
        return Weighing(SquaredNorm())
    prior = getattr(estimator, "prior", None)
    prior = prior or GaussianPrior()
    mean = _means(prior.mean, n, columns)
    held, values = _held(getattr(estimator, "fixed", None), n, names, columns)
    signs = _signs(estimator, n, names)
    wrong = held[(signs[held, None] * values < 0.0).any(axis=1)]
    if len(wrong):
        value = values[np.flatnonzero(held == wrong[0])[0]]
        kind = "negative" if signs[wrong[0]] > 0.0 else "positive"
        raise ValueError(
            f"weight {wrong[0]} is fixed at {value[0]}, but must not be {kind}. Change fixed=, nonnegative= "
            "or nonpositive=."
        )
    signs[held] = 0.0
    center, scale, blocks = _spread(prior, mean, held, values, signs)
    if intercept != 0.0:
        last = _intercepts(prior.intercept_mean, columns) / intercept
        center, scale = np.vstack([center, last]), np.append(scale, 1.0)
    if column is not None:
        center = np.ascontiguousarray(center[:, [column]])
    signed = np.flatnonzero(signs)
    steps = _steps(signed, scale, blocks)
    floor: Array = 0.0 - (center[signed] / steps[:, None])
    width = center.shape[1]
    where = (signed[:, None] * width + np.arange(width)).ravel()
    norm = SquaredNorm(nonnegative=where, floor=floor.ravel() if floor.any() else None)
    kept = None if norm.floor is None else np.append(signs, np.zeros(len(scale) - n))
    made = WeightMap(center, scale, blocks, kept)
    return Weighing(norm, made if made.shifts or made.stretches else None)


def _spread(
    prior: GaussianPrior, mean: Array, held: IntArray, values: Array, signs: Array
) -> tuple[Array, Array, tuple[tuple[IntArray, Any], ...]]:
    """Center, diagonal and blocks of the map, given the weights that are fixed."""
    n = len(mean)
    center = mean.copy()
    center[held] = values
    scale = prior.diagonal(n)
    if scale is not None:
        scale = scale * np.where(signs < 0.0, -1.0, 1.0)
        scale[held] = 0.0
        return center, scale, ()
    scale = np.ones(n)
    scale[held] = 0.0
    blocks: list[tuple[IntArray, Any]] = []
    for where, part in prior.parts(n):
        here = np.flatnonzero(np.isin(where, held))
        for k in np.flatnonzero(signs[where]):
            if not part.alone(int(k)):
                raise ValueError(
                    f"weight {where[k]} must have a sign, but the prior correlates it with other weights. "
                    "Make it independent (zeros in its row and column), or leave it out of nonnegative= and "
                    "nonpositive=."
                )
        moved, T = part.given(here, (values - mean[held])[np.isin(held, where)])
        rest = np.delete(where, here)
        center[rest] += moved
        if (signs[rest] < 0.0).any():
            T = T * np.where(signs[rest] < 0.0, -1.0, 1.0)
        blocks.append((rest, T))
    return center, scale, tuple(blocks)


def _steps(signed: IntArray, scale: Array, blocks: tuple[tuple[IntArray, Any], ...]) -> Array:
    """The diagonal entries of T for weights that are uncorrelated with all others."""
    diagonal = scale.copy()
    for where, T in blocks:
        if np.isin(where, signed).any():
            diagonal[where] = np.diagonal(T)
    return diagonal[signed]


def _means(mean: Any, n: int, columns: int) -> Array:
    """The center as an array of shape (n, columns)."""
    given = np.zeros(()) if mean is None else np.asarray(mean, dtype=np.float64)
    if given.shape in ((), (n,)):
        return np.array(np.broadcast_to(given.reshape(-1, 1), (n, columns)))
    if given.shape == (columns, n):
        return np.array(given.T)
    shapes = f"({n},)" + (f" or ({columns}, {n})" if columns > 1 else "")
    raise ValueError(f"prior: mean has shape {given.shape}; {shapes} is needed.")


def _intercepts(mean: Any, columns: int) -> Array:
    given = np.zeros(()) if mean is None else np.asarray(mean, dtype=np.float64)
    if given.shape not in ((), (1,), (columns,)):
        raise ValueError(
            f"prior: intercept_mean has shape {given.shape}; it must be a number or have shape ({columns},)."
        )
    return np.array(np.broadcast_to(given, (columns,)))


def _held(
    fixed: Any, n: int, names: Sequence[Hashable] | None, columns: int
) -> tuple[IntArray, Array]:
    """Fixed weights, ascending, and their values in all columns."""
    if not _given(fixed):
        return np.empty(0, dtype=np.int64), np.empty((0, columns))
    indices = find_weights(fixed, n, names, "fixed")
    values = []
    for key, value in fixed.items():
        row = np.asarray(value, dtype=np.float64)
        if row.shape not in ((), (columns,)) or not np.isfinite(row).all():
            many = f" or {columns} of them, one per class" if columns > 1 else ""
            raise ValueError(
                f"fixed: weight {key!r} has the value {value!r}, but must be a finite number{many}."
            )
        values.append(np.broadcast_to(row, (columns,)))
    order = np.argsort(indices)
    return indices[order], np.array(values)[order]


def _signs(estimator: Any, n: int, names: Sequence[Hashable] | None) -> Array:
    """+1 where a weight must not be negative, -1 where it must not be positive, 0 elsewhere."""
    signs = np.zeros(n)
    for what, sign in (("nonnegative", 1.0), ("nonpositive", -1.0)):
        asked = getattr(estimator, what, None)
        found = find_weights(() if asked is None else asked, n, names, what)
        both = found[signs[found] != 0.0]
        if len(both):
            raise ValueError(
                f"weight {both[0]} is in nonnegative and in nonpositive. To keep it at zero use fixed=."
            )
        signs[found] = sign
    return signs


def find_weights(
    keys: Iterable[Any], dim: int, names: Sequence[Hashable] | None, what: str
) -> IntArray:
    """Indices of weights given by index or by name. ``what`` is the name of the parameter, for messages."""
    keys = list(keys)
    if keys and all(isinstance(key, bool | np.bool_) for key in keys):
        if len(keys) != dim:
            raise ValueError(
                f"{what} is a mask of {len(keys)} entries, but there are {dim} weights."
            )
        return np.flatnonzero(keys)
    place = {} if names is None else {name: k for k, name in enumerate(names)}
    found: list[int] = []
    for key in keys:
        if key in place:
            found.append(place[key])
        elif isinstance(key, Integral) and not isinstance(key, bool) and -dim <= int(key) < dim:
            found.append(int(key) % dim)
        else:
            known = f"an index below {dim}" + (f" or one of {list(place)}" if place else "")
            raise ValueError(f"{what} contains {key!r}, which is not a weight: use {known}.")
    if len(set(found)) < len(found):
        raise ValueError(f"{what} contains a weight twice.")
    return np.array(found, dtype=np.int64)


def free_bound(
    C: float,
    design: Any,
    y: Any,
    weight: Any,
    loss: ScoreLoss,
    intercept: float,
    weights: Weighing,
    largest_demand: float,
) -> tuple[float, float, float]:
    """How far an optimal unpenalized intercept can be from its center: the arguments ``near``, ``growth`` and
    ``first`` of :meth:`SquaredNorm.with_free`.

    At the first point v_0, Omega(v*) <= F(v_0). So |v*| is at most W = sqrt(2 F(v_0)), and the scores
    without intercept are within W max|T'x| of those at the center. The rest is as without a prior: an
    intercept beyond all scores plus the largest cost would only increase the loss. ``largest_demand`` is the
    required margin, the largest cost, or the largest target of a regression.
    """
    n, d = design.shape
    if not hasattr(design, "block"):
        raise TypeError(
            f"{type(design).__name__} has no block() method. An unpenalized intercept with a prior, fixed or "
            "signed weights requires block(lo, hi)."
        )
    columns = loss.n_outputs()
    shape = (-1,) if columns is None else (-1, columns)
    made = weights.map or _identity(design, columns, intercept)
    first = weights.norm.primal(np.zeros(made.center.size))
    at, center = made.whole(first).reshape(shape), made.center.reshape(shape)
    start, spread, largest = weights.norm.value(first), 0.0, 0.0
    for lo in range(0, n, 4096):
        part, hi = design.block(lo, min(n, lo + 4096)), min(n, lo + 4096)
        scores = part.dot(np.ascontiguousarray(at[:d]), 0, hi - lo) + intercept * at[d]
        start += C * loss.value(scores, y[lo:hi], weight[lo:hi])
        plain = part.dot(np.ascontiguousarray(center[:d]), 0, hi - lo)
        apart = np.abs(plain) if columns is None else plain.max(axis=1) - plain.min(axis=1)
        spread = max(spread, float(apart.max(initial=0.0)))
        largest = max(largest, largest_square(stretched(part, made)))
    longest, shift = float(np.sqrt(largest)), float(np.abs(center[d]).max())
    if columns is None:
        return largest_demand + spread + shift, longest, start
    near, growth = largest_demand + spread, float(np.sqrt(2.0)) * longest
    return 0.5 * (columns - 1) * near + shift, 0.5 * (columns - 1) * growth, start


def _identity(design: Any, columns: int | None, intercept: float) -> WeightMap:
    height = design.shape[1] + int(intercept != 0.0)
    return WeightMap(np.zeros((height, columns or 1)), np.ones(height))
