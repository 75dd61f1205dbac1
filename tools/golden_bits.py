#!/usr/bin/env python
"""Print a hash for each of about 70 small fits, to check that a source change leaves all results unchanged.

    python tools/golden_bits.py > before.txt
    python tools/golden_bits.py --compare before.txt

A line has the name of a fit, its number of iterations, and a hash of weights, bounds and iterations. Results
depend on the processor and on library versions in the last bits, so compare recordings of one machine only.
Only public names are used, so that files can be moved.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import maxmargin as mm
from maxmargin import data, losses, solvers, tasks
from maxmargin.risks import ScoreRisk

Fit = Callable[[], Any]
FITS: dict[str, Fit] = {}


def fit(name: str) -> Callable[[Fit], Fit]:
    """Register a fit under this name."""

    def keep(make: Fit) -> Fit:
        FITS[name] = make
        return make

    return keep


def rows(n: int = 200, d: int = 12, K: int = 2, seed: int = 0) -> tuple[Any, Any]:
    """Samples with noisy linear labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.3, 3.0, d)
    scores = X @ rng.normal(size=(d, K)) + rng.normal(size=(n, K))
    return X, scores.argmax(axis=1)


def sparse(n: int = 400, d: int = 300, seed: int = 1) -> tuple[Any, Any]:
    """Sparse samples."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.05, format="csr", random_state=seed)
    return X, np.where(X @ rng.normal(size=d) + 0.1 * rng.normal(size=n) > 0, 1, 0)


def sentences(n: int = 30, seed: int = 2) -> tuple[Any, Any]:
    """Sequences of tokens with named features."""
    rng = np.random.default_rng(seed)
    y = [rng.integers(0, 3, size=rng.integers(2, 9)) for _ in range(n)]
    X = [
        [[f"word{(3 * t + rng.integers(0, 4)) % 9}", f"last{rng.integers(0, 3)}"] for t in labels]
        for labels in y
    ]
    return X, [labels.tolist() for labels in y]


def chains(n: int = 25, seed: int = 3) -> tuple[Any, Any]:
    """Sequences of vectors."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(2, 7), 4)) for _ in range(n)]
    return X, [(x[:, :3] + 0.5 * rng.normal(size=(len(x), 3))).argmax(axis=1) for x in X]


def graphs(n: int = 15, seed: int = 4) -> tuple[Any, Any]:
    """Cycles of five nodes."""
    rng = np.random.default_rng(seed)
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]])
    X = [(rng.normal(size=(5, 3)), edges, np.ones((5, 1))) for _ in range(n)]
    return X, [(x[0] + 0.7 * rng.normal(size=(5, 3))).argmax(axis=1) for x in X]


class BestRow(tasks.LatentBinary):
    """A matrix is positive if one of its rows is."""

    def n_features(self, X: Any) -> int:
        return int(X[0].shape[1])

    def features(self, x: Any, h: Any) -> Any:
        return x[h]

    def best(self, x: Any, w: Any) -> int:
        return int(np.argmax(x @ w))


class Multiclass(tasks.Task):
    """Several classes, written as a user would."""

    def setup(self, X: Any, Y: Any) -> int:
        self.K, self.d = max(Y) + 1, len(X[0])
        return int(self.K * self.d)

    def joint_feature(self, x: Any, y: Any) -> Any:
        out = np.zeros((self.K, self.d))
        out[y] = x
        return out.ravel()

    def loss(self, y: Any, other: Any) -> float:
        return float(y != other)

    def inference(self, x: Any, w: Any) -> Any:
        return int((w.reshape(self.K, self.d) @ x).argmax())

    def loss_augmented_inference(self, x: Any, y: Any, w: Any) -> Any:
        return int((w.reshape(self.K, self.d) @ x + (np.arange(self.K) != y)).argmax())


# -- linear models -------------------------------------------------------------------------------------

for name, solver in {
    "auto": "auto",
    "coordinate": solvers.DualCoordinate(),
    "newton": solvers.Newton(),
    "planes": solvers.CuttingPlane(),
    "few planes": solvers.CuttingPlane(max_planes=10),
}.items():
    for kind in ("hinge", "squared_hinge"):
        FITS[f"LinearSVC {kind} {name}"] = partial(
            lambda solver, kind: mm.LinearSVC(loss=kind, solver=solver).fit(*rows()), solver, kind
        )
FITS |= {
    "LinearSVC planes at rows": lambda: mm.LinearSVC(
        C=3.0, solver=solvers.CuttingPlane(space="rows"), loss="hinge"
    ).fit(*sparse()),
    "LinearSVC sparse": lambda: mm.LinearSVC(C=3.0, loss="hinge").fit(*sparse()),
    "LinearSVC float32": lambda: mm.LinearSVC(loss="hinge").fit(
        rows()[0].astype(np.float32), rows()[1]
    ),
    "LinearSVC free intercept": lambda: mm.LinearSVC(penalize_intercept=False, loss="hinge").fit(
        *rows()
    ),
    "LinearSVC Crammer-Singer": lambda: mm.LinearSVC(multi_class="crammer_singer").fit(*rows(K=4)),
    "LinearSVC one-vs-rest": lambda: mm.LinearSVC(multi_class="ovr", loss="hinge").fit(*rows(K=4)),
    "LinearSVC costs": lambda: mm.LinearSVC(
        cost=2.0 - 2.0 * np.eye(3), multi_class="crammer_singer"
    ).fit(*rows(K=3)),
    "LinearSVC balanced": lambda: mm.LinearSVC(class_weight="balanced", loss="hinge").fit(*rows()),
    "LinearSVC weights": lambda: mm.LinearSVC(loss="hinge").fit(
        *rows(), sample_weight=np.linspace(0.0, 2.0, 200)
    ),
    "LinearSVC prior": lambda: mm.LinearSVC(
        prior=mm.GaussianPrior(np.linspace(-1, 1, 12), np.linspace(0.5, 2, 12)), loss="hinge"
    ).fit(*rows()),
    "LinearSVC signs": lambda: mm.LinearSVC(nonnegative=[0, 1], nonpositive=[2], loss="hinge").fit(
        *rows()
    ),
    "LinearSVC threads": lambda: mm.LinearSVC(
        solver=solvers.CuttingPlane(), n_jobs=2, loss="hinge"
    ).fit(*rows(5000)),
    "LinearSVC processes": lambda: mm.LinearSVC(
        solver=solvers.CuttingPlane(), engine="processes", n_jobs=2, loss="hinge"
    ).fit(*rows(3000)),
    "LinearSVR": lambda: mm.LinearSVR(epsilon=0.1).fit(rows()[0], rows()[0] @ np.arange(12.0)),
    "LinearSVR squared": lambda: mm.LinearSVR(loss="squared_epsilon_insensitive").fit(
        rows()[0], rows()[0] @ np.arange(12.0)
    ),
    "LinearSVCCV": lambda: mm.LinearSVCCV(Cs=[0.01, 1.0, 100.0], cv=3, loss="hinge").fit(*rows()),
    "RankSVM pairs": lambda: mm.RankSVM().fit(*_queries()[:2], groups=_queries()[2]),
    "RankSVM map": lambda: mm.RankSVM(loss="map").fit(
        _queries()[0], np.minimum(1, _queries()[1]), groups=_queries()[2]
    ),
    "RankSVM ndcg": lambda: mm.RankSVM(loss="ndcg").fit(*_queries()[:2], groups=_queries()[2]),
}


def _queries() -> tuple[Any, Any, Any]:
    X, _ = rows(n=120, d=6)
    y = np.digitize(X @ np.arange(6.0), [-3.0, 3.0]).astype(float)
    return X, y, np.repeat(np.arange(12), 10)


for measure in ("error", "balanced_error", "f1", "prbep", "roc_auc", "kld", "q"):
    FITS[f"MeasureSVC {measure}"] = partial(
        lambda measure: mm.MeasureSVC(measure=measure).fit(*rows()), measure
    )


@fit("svc_path")
def _path() -> Any:
    return list(mm.svc_path(*rows(), Cs=[0.1, 1.0, 10.0], loss="hinge"))


@fit("partial_fit")
def _stream() -> Any:
    X, y = rows(600)
    svc = mm.LinearSVC(loss="hinge")
    for k in range(0, 600, 200):
        svc.partial_fit(X[k : k + 200], y[k : k + 200], classes=[0, 1])
    return svc


@fit("data set on disk")
def _disk() -> Any:
    X, y = rows(3000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        data.write(path, [(X, y)])
        return mm.LinearSVC(loss="hinge").fit(data.open(path))


@fit("resumed")
def _resumed() -> Any:
    X, y = rows(K=3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        keep = mm.Checkpoint(path, seconds=None, iterations=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mm.LinearSVC(
                solver=solvers.CuttingPlane(), max_iter=5, checkpoint=keep, loss="hinge"
            ).fit(X, y)
        return mm.LinearSVC(solver=solvers.CuttingPlane(), loss="hinge").fit(X, y, resume_from=path)


for name, loss in {
    "Hinge": losses.Hinge(),
    "SquaredHinge": losses.SquaredHinge(),
    "Logistic": losses.Logistic(),
    "OneClass": losses.OneClass(),
    "EpsilonInsensitive": losses.EpsilonInsensitive(0.2),
}.items():
    FITS[f"minimize {name}"] = partial(
        lambda loss: mm.minimize(
            ScoreRisk(rows()[0], 2.0 * rows()[1] - 1.0, loss, intercept=1.0), 0.5
        ),
        loss,
    )

# -- structures ----------------------------------------------------------------------------------------

for name, solver in {
    "auto": "auto",
    "planes": solvers.CuttingPlane(),
    "batch": solvers.DualCoordinate(batch_size="all"),
}.items():
    FITS[f"SequenceTagger {name}"] = partial(
        lambda solver: mm.SequenceTagger(C=0.5, solver=solver).fit(*sentences()), solver
    )
FITS |= {
    "SequenceTagger dense": lambda: mm.SequenceTagger(1.0).fit(*chains()),
    "SequenceTagger order 2": lambda: mm.SequenceTagger(1.0, order=2).fit(*chains()),
    "SequenceTagger slack": lambda: mm.SequenceTagger(1.0, rescaling="slack").fit(*chains(10)),
    "GraphLabeler full": lambda: mm.GraphLabeler().fit(*graphs()),
    "GraphLabeler potts": lambda: mm.GraphLabeler(edges="potts").fit(*graphs()),
    "GraphLabeler attractive": lambda: mm.GraphLabeler(edges="attractive").fit(*graphs()),
    "StructuredSVM": lambda: mm.StructuredSVM(Multiclass()).fit(*_examples()),
    "StructuredSVM planes": lambda: mm.StructuredSVM(
        Multiclass(), solver=solvers.CuttingPlane()
    ).fit(*_examples()),
    "StructuredSVM processes": lambda: mm.StructuredSVM(
        tasks.Chain(3, 4), solver=solvers.CuttingPlane(), engine="processes", n_jobs=2
    ).fit(*chains()),
    "StructuredSVM chain": lambda: mm.StructuredSVM(tasks.Chain(3, 4)).fit(*chains()),
    "StructuredSVM candidates": lambda: mm.StructuredSVM(tasks.Enumerable()).fit(
        [x.reshape(3, 5) for x in rows(40, 15)[0]], [int(k) for k in rows(40, 15, K=3)[1]]
    ),
    "SequenceTagger kernel": lambda: mm.SequenceTagger(kernel="poly", degree=2).fit(*chains(10)),
    "StructuredSVMCV": lambda: mm.StructuredSVMCV(Multiclass(), Cs=[0.01, 1.0], cv=2).fit(
        *_examples()
    ),
    "LatentStructuredSVM": lambda: mm.LatentStructuredSVM(BestRow()).fit(
        [x.reshape(4, 3) for x in rows(40)[0]], rows(40)[1].tolist()
    ),
}


def _examples() -> tuple[Any, Any]:
    X, y = rows(60, K=3)
    return list(X), [int(k) for k in y]


@fit("GrammarParser")
def _grammar() -> Any:
    trees = [
        ("S", ("NP", "dogs"), ("VP", ("V", "chase"), ("NP", "cats"))),
        ("S", ("NP", "cats"), ("VP", ("V", "see"), ("NP", "dogs"))),
    ]
    words = [["dogs", "chase", "cats"], ["cats", "see", "dogs"]]
    return mm.GrammarParser().fit(words, trees)


# -- kernels -------------------------------------------------------------------------------------------

for method in ("auto", "exact", "map", "nystrom", "sampled"):
    FITS[f"KernelSVC {method}"] = partial(
        lambda method: mm.KernelSVC(method=method, C=2.0, random_state=0).fit(*rows(150)), method
    )
for kernel in ("linear", "poly", "sigmoid"):
    FITS[f"KernelSVC {kernel}"] = partial(
        lambda kernel: mm.KernelSVC(kernel=kernel).fit(*rows(100)), kernel
    )
FITS["KernelSVC three classes"] = lambda: mm.KernelSVC().fit(*rows(120, K=3))
FITS["KernelSVC Crammer-Singer"] = lambda: mm.KernelSVC(multi_class="crammer_singer").fit(
    *rows(80, K=3)
)
FITS["KernelSVC function"] = lambda: mm.KernelSVC(kernel=lambda X, Z: X @ Z.T).fit(*rows(100))

WEIGHTS = ("coef_", "intercept_", "weights_", "dual_coef_", "w")
NUMBERS = ("objective", "lower_bound", "gap", "converged", "stop_reason", "n_iter")


def parts(fitted: Any) -> Iterator[tuple[str, Any]]:
    """Weights, bounds and iterations of an estimator, a result, or a list of them."""
    if isinstance(fitted, list | tuple):
        for one in fitted:
            yield from parts(one)
        return
    best = getattr(fitted, "best_estimator_", None)
    if best is not None:
        yield from parts(best)
    for name in WEIGHTS:
        if hasattr(fitted, name):
            yield name, np.asarray(getattr(fitted, name))
    for name in NUMBERS:
        for full in (name, name + "_"):
            if hasattr(fitted, full):
                yield name, getattr(fitted, full)


def digest(fitted: Any) -> tuple[str, Any]:
    """The hash, and the number of iterations."""
    found, made = list(parts(fitted)), hashlib.sha256()
    for name, value in found:
        made.update(name.encode())
        made.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    if not found:
        raise ValueError(f"nothing to compare in {fitted!r}")
    return made.hexdigest()[:16], dict(found).get("n_iter", "-")


def main() -> int:
    """Print the hashes, or compare; 1 if any differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="fits with this in their name")
    parser.add_argument("--compare", type=Path, help="a recording made before")
    parser.add_argument(
        "--backward", action="store_true", help="the last fit first: the order must not matter"
    )
    parser.add_argument(
        "--seconds", action="store_true", help="how long each fit took, on standard error"
    )
    args = parser.parse_args()
    before = {}
    if args.compare is not None:
        before = {
            line[:40].strip(): line[40:].strip() for line in args.compare.read_text().splitlines()
        }
    wrong = 0
    for name, make in reversed(FITS.items()) if args.backward else FITS.items():
        if args.only not in name:
            continue
        began = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                code, iterations = digest(make())
        except Exception as error:  # a failed fit counts as a difference
            code, iterations = "error", f"{type(error).__name__}: {error}"[:120]
        line = f"{iterations} {code}"
        if args.seconds:
            print(f"{time.perf_counter() - began:8.2f} s  {name}", file=sys.stderr, flush=True)
        if args.compare is None:
            print(f"{name:40}{line}", flush=True)
        elif before.get(name) != line:
            wrong += 1
            print(f"{name:40}{line}, before: {before.get(name)}", flush=True)
    if args.compare is not None:
        print(f"{len(FITS) - wrong} of {len(FITS)} fits are as before")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
