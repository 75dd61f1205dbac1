"""``minimize(ScoreRisk(...))`` with decomposable losses, without an estimator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg as sl
from tests.reference_optima.program import LONG, LONG_EPS, Array, LongArray, Program

from fuzz import linear, wild
from fuzz.checks import attributes, check_program, watched
from fuzz.framework import WILD_SECONDS, Case, Outcome
from maxmargin import losses, minimize, solvers
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.risks import ScoreRisk

NAME = "ScoreRisk"
LOSSES = (
    "Hinge()",
    "SquaredHinge()",
    "CrammerSinger",
    "EpsilonInsensitive",
    "SquaredEpsilonInsensitive",
)
OTHERS = ("OneClass()", "Logistic()", "CandidateHinge('margin')", "CandidateHinge('slack')")


def draw(rng: np.random.Generator) -> Case:
    """A random risk."""
    tame = wild.chance(rng, 0.25)
    loss = str(wild.pick(rng, *LOSSES, *OTHERS))
    n, d = wild.shape(rng)
    n = max(2, n)
    X, stored = wild.matrix(rng, n, d, tame)
    params = wild.settings(rng, tame)
    if params.get("solver", "auto") == "auto":
        params["solver"] = wild.pick(rng, "Auto()", "CuttingPlane()")
    if loss in OTHERS and params["solver"] != "Auto()":
        params |= {"solver": "CuttingPlane()", "max_iter": 200}
    data: dict[str, Any] = {"X": X, "stored": stored, "params": params, "tame": tame, "also": ""}
    data["y"] = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    if loss == "CrammerSinger":
        k = int(rng.integers(2, 5))
        data["y"] = rng.integers(0, k, n)
        loss = f"CrammerSinger(np.array({(rng.random((k, k)) * (1 - np.eye(k))).tolist()}))"
    elif "Epsilon" in loss:
        data["y"] = rng.normal(size=n) * wild.pick(rng, 1.0, 1e-6, wild.power(rng, -6, 6))
        loss = f"{loss}({wild.pick(rng, 0.0, 0.1, wild.power(rng, -8, 0))!r})"
    elif "Candidate" in loss:
        counts = split(rng, n)
        data["y"] = candidates(rng, counts)
    data["loss"] = loss
    data["sample_weight"] = None if "Candidate" in loss else wild.weights(rng, n, tame)
    data["intercept"] = 0.0 if "Candidate" in loss else float(wild.pick(rng, 0.0, 1.0, 10.0))
    data["nonnegative"] = [0] if wild.chance(rng, 0.1) and "Crammer" not in loss else []
    solver = params["solver"].removesuffix("()").lower()
    name = loss.split("(")[0] + ("+signs" if data["nonnegative"] else "")
    return Case(NAME, f"{name}/{solver}{'/tame' if tame else ''}", 0, data)


def split(rng: np.random.Generator, n: int) -> list[int]:
    """Group sizes that sum to n."""
    counts = []
    while sum(counts) < n:
        counts.append(int(min(n - sum(counts), rng.integers(1, 6))))
    return counts


def candidates(rng: np.random.Generator, counts: list[int]) -> Array:
    """For each candidate: its group, its loss, and whether it is the correct one."""
    rows = []
    for g, count in enumerate(counts):
        right = int(rng.integers(count))
        rows += [[g, 0.0 if k == right else rng.random(), float(k == right)] for k in range(count)]
    return np.array(rows, dtype=float)


@dataclass(frozen=True, eq=False)
class LogisticProgram:
    """1/2 |z|^2 + sum_i c_i log(1 + exp(-m_i)), m_i = a_i z, in the referee's form."""

    A: Array
    cost: Array
    precision: Array
    lower: Array | None = None

    @property
    def total(self) -> float:
        """C times the sum of the weights."""
        return float(self.cost.sum())

    def feasible(self, z: npt.ArrayLike) -> LongArray:
        """The nearest point within the bounds."""
        point = np.asarray(z, dtype=LONG)
        return point if self.lower is None else np.maximum(point, self.lower)

    def violated(self, z: npt.ArrayLike) -> bool:
        """Whether a weight is outside its bounds."""
        return bool((self.feasible(z) != np.asarray(z, dtype=LONG)).any())

    def value(self, z: npt.ArrayLike) -> tuple[np.longdouble, float]:
        """F(z) in extended precision, and a bound on its rounding error."""
        point = np.asarray(z, dtype=LONG)
        margin = self.A.astype(LONG) @ point
        loss = np.logaddexp(LONG(0), -margin)
        return LONG(0.5) * (self.precision * point) @ point + self.cost @ loss, self.rounding(
            z, LONG_EPS
        )

    def rounding(self, z: npt.ArrayLike, eps: float) -> float:
        """A bound on the error of F(z) in arithmetic with this ``eps``."""
        point = np.asarray(z, dtype=LONG)
        size = np.abs(self.A).astype(LONG) @ np.abs(point)
        margin = self.A.astype(LONG) @ point
        slope = 1 / (1 + np.exp(np.minimum(margin, 11000)))
        loss = np.logaddexp(LONG(0), -margin)
        return float((len(point) + len(self.cost) + 8) * eps * (self.cost @ (slope * size + loss)))

    def points(self, known: list[Any]) -> Iterator[LongArray]:
        """Newton steps from the returned weights and from zero."""
        for start in [*known, np.zeros(self.A.shape[1])]:
            z = self.feasible(start)
            yield z
            for _ in range(30):
                margin = self.A.astype(LONG) @ z
                slope = 1 / (1 + np.exp(np.minimum(margin, 11000)))
                gradient = self.precision * z - self.A.T.astype(LONG) @ (self.cost * slope)
                curve = (self.cost * slope * (1 - slope)).astype(float)
                H = np.diag(self.precision) + (self.A.T * curve) @ self.A
                root = np.sqrt(np.maximum(np.diagonal(H), 1e-300))
                if not np.isfinite(H).all():
                    break
                step = sl.lstsq(H / root / root[:, None], (gradient / root).astype(float))[0] / root
                value, _ = self.value(z)
                trials = [self.feasible(z - t * step) for t in (1.0, 0.5, 0.1, 0.01)]
                z = min(trials, key=lambda trial: self.value(trial)[0])
                if not self.value(z)[0] < value:
                    break
                yield z


def program_of(case: Case, w: Array) -> tuple[Any, Array]:
    """The problem, and the returned weights."""
    data, loss = case.data, case.data["loss"]
    X, y = np.asarray(data["X"], dtype=float), data["y"]
    n, d = X.shape
    width = d
    C = data["params"].get("C", 1.0)
    cost = C * (np.ones(n) if data["sample_weight"] is None else data["sample_weight"])
    precision = np.ones(d)
    if data["intercept"]:
        X, width, precision = (
            np.column_stack([X, np.full(n, data["intercept"])]),
            d + 1,
            np.ones(d + 1),
        )
    lower = None
    if data["nonnegative"]:
        lower = np.full(width, -np.inf)
        lower[data["nonnegative"]] = 0.0
    if loss == "Logistic()":
        return LogisticProgram(y[:, None] * X, cost, precision, lower), w
    if "Crammer" in loss:
        table = np.array(eval(loss.removeprefix("CrammerSinger"), {"np": np}))
        k = len(table)
        rows, h, group = [], [], []
        for i in range(n):
            for other in set(range(k)) - {int(y[i])}:
                row = np.zeros((width, k))
                row[:, other] += X[i]
                row[:, int(y[i])] -= X[i]
                rows.append(row.ravel())
                h.append(table[int(y[i]), other])
                group.append(i)
        size = width * k
        return Program(
            np.zeros(size), np.ones(size), np.array(rows), np.array(h), np.array(group), cost
        ), w
    zero = np.zeros(width)
    if "Epsilon" in loss:
        e = LONG(float(loss.split("(")[1].rstrip(")")))
        high = y.astype(LONG)
        A, h = np.concatenate([-X, X]), np.concatenate([high - e, -high - e])
        group = np.tile(np.arange(n), 2)
    elif "Candidate" in loss:
        A, h, group = listed(X, y, "slack" in loss)
        cost = np.full(int(y[:, 0].max()) + 1, C)
    else:
        sign = np.ones(n) if "OneClass" in loss else y
        A, h, group = -sign[:, None] * X, np.ones(n), np.arange(n)
    squared = loss.startswith("Squared")
    return Program(zero, precision, A, h, group, cost, squared, lower), w


def listed(X: Array, y: Array, slack: bool) -> tuple[Array, Array, Any]:
    """The candidates of each group compared with the correct one."""
    A, h, group = [], [], []
    for i in range(len(X)):
        right = np.flatnonzero((y[:, 0] == y[i, 0]) & (y[:, 2] > 0.0))[0]
        rho = y[i, 1] if slack else 1.0
        A.append(rho * (X[i].astype(LONG) - X[right]))
        h.append(y[i, 1])
        group.append(int(y[i, 0]))
    return np.array(A), np.array(h), np.array(group)


def run(case: Case) -> Outcome:
    """Minimize and check."""
    data, params = case.data, case.data["params"]
    loss = eval(data["loss"], {**vars(losses), "np": np})
    tol = params.get("tol", 1e-3)
    solver = eval(params.get("solver", "CuttingPlane()"), vars(solvers).copy())
    with watched():
        try:
            risk = ScoreRisk(
                wild.given(data["X"], data["stored"]), data["y"], loss,
                sample_weight=data["sample_weight"], intercept=data["intercept"],
            )  # fmt: skip
            result = minimize(
                risk,
                params.get("C", 1.0),
                solver=solver,
                regularizer=SquaredNorm(nonnegative=np.array(data["nonnegative"], dtype=np.int64)),
                stopping=solvers.RelativeGap(tol),
                max_iter=params.get("max_iter"),
                max_seconds=None if data["tame"] else WILD_SECONDS,
            )
        except (ValueError, TypeError) as error:
            return linear.refused(case, error)
    certificate = attributes(result)
    program, z = program_of(case, result.w)
    found = check_program(certificate, program, z, tol, tame=data["tame"])
    if params.get("solver") == "Auto()":
        found += linear.certified(case, certificate, program, z)
    return Outcome("certified" if result.converged else "warned", found)


def reproduce(case: Case) -> str:
    """Python code that reproduces the result."""
    data, params = case.data, case.data["params"]
    out = wild.lines(case, "from maxmargin import minimize")
    out.append("from maxmargin.core.regularizer import SquaredNorm")
    out.append("from maxmargin.losses import *")
    out.append("from maxmargin.risks import ScoreRisk")
    out.append("from maxmargin.solvers import Auto, RelativeGap")
    weight = (
        ""
        if data["sample_weight"] is None
        else f", sample_weight={wild.written(data['sample_weight'])}"
    )
    out.append(f"risk = ScoreRisk(X, y, {data['loss']}, intercept={data['intercept']}{weight})")
    signs = f", regularizer=SquaredNorm(nonnegative=np.array({data['nonnegative']}))"
    out.append(
        f"r = minimize(risk, {params.get('C', 1.0)!r}, solver={params.get('solver', 'CuttingPlane()')}, "
        f"stopping=RelativeGap({params.get('tol', 1e-3)!r}), max_iter={params.get('max_iter')}"
        f"{signs if data['nonnegative'] else ''})"
    )
    out.append("print(r)")
    return "\n".join(out)


def smaller(case: Case) -> Iterator[Case]:
    """Simpler problems."""
    if "Candidate" not in case.data["loss"]:
        yield from wild.smaller(case, keep=("solver",))
