"""The papers' competitors on two-class problems without an intercept: one fit each, CPU seconds and F.

Programs run if they are found: ``svmocas``, ``liblinear-train`` and ``svm-train`` of Debian's libocas-tools,
liblinear-tools and libsvm-tools (or MAXMARGIN_SVMOCAS, MAXMARGIN_LIBLINEAR, MAXMARGIN_LIBSVM), SVM-light's
``svm_learn`` (MAXMARGIN_SVM_LIGHT) and SVM-perf's (MAXMARGIN_SVM_PERF), which are not packaged.
"LIBLINEAR", "LIBSVM" and SGD are those of scikit-learn. Vowpal Wabbit and skglm run if they are installed.
"""

from __future__ import annotations

from benchmarks.common import Cell, cpu, scratch

# ruff: isort: split
import functools
import math
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import packages
from benchmarks.problems import Problem, Watch

TOL = 1e-3
#: CPU seconds that a fit may take
LIMIT = 60.0
#: CPU seconds after which a decomposition program is stopped
PATIENCE = 240.0
#: multiply-adds that LIBLINEAR may make: its scikit-learn version has no limit of time
PRODUCTS, PASSES = 2e9, 2000
#: where our cutting planes spend their time, by the names of the columns of the history
PHASES = ("oracle", "plane", "line_search", "qp")
#: environment variable and Debian's name of each program
PROGRAMS = {
    "svmocas": ("MAXMARGIN_SVMOCAS", "svmocas"),
    "liblinear": ("MAXMARGIN_LIBLINEAR", "liblinear-train"),
    "libsvm": ("MAXMARGIN_LIBSVM", "svm-train"),
    "svm_light": ("MAXMARGIN_SVM_LIGHT", None),
    "svm_perf": ("MAXMARGIN_SVM_PERF", None),
}


def program(name: str) -> str | None:
    """The path of a program, from its environment variable or from the search path."""
    variable, debian = PROGRAMS[name]
    return os.environ.get(variable) or (None if debian is None else shutil.which(debian))


def objective(problem: Problem, w: np.ndarray, C: float) -> float:
    """F by code that no solver uses."""
    from maxmargin.testing import binary_objective

    return binary_objective(np.ravel(w), 0.0, problem.X, np.sign(problem.y), C)


def ours(
    problem: Problem,
    C: float,
    limit: float = LIMIT,
    *,
    line_search: bool,
    mu: float | None = None,
    tol: float = TOL,
) -> Cell:
    """Our cutting planes: optimized or plain."""
    from maxmargin.solvers import CuttingPlane

    how = CuttingPlane(line_search=line_search, mu=mu)
    return watched(problem, C, limit, how, tol)


def default(problem: Problem, C: float, limit: float = LIMIT, *, tol: float = TOL) -> Cell:
    """Our default solver."""
    return watched(problem, C, limit, "auto", tol)


def coordinates(problem: Problem, C: float, limit: float = LIMIT, *, tol: float = TOL) -> Cell:
    """Our dual coordinate method, to the end."""
    from maxmargin.solvers import DualCoordinate

    return watched(problem, C, limit, DualCoordinate(), tol)


def watched(problem: Problem, C: float, limit: float, how: Any, tol: float) -> Cell:
    """One of our solvers for two or more classes, stopped at a limit, and where its time went."""
    from maxmargin import LinearSVC

    few, settings = problem.some(), {"fit_intercept": False, "solver": how, **problem.kind}
    # the same settings load the same compiled functions
    LinearSVC(C=C * problem.n / few.n, tol=tol, max_iter=100, **settings).fit(few.X, few.y)
    watch = Watch(limit)
    svc = LinearSVC(C=C, tol=tol, callbacks=[watch], **settings)
    watch.began = began = cpu()
    svc.fit(problem.X, problem.y)
    seconds, whole = cpu() - began, svc.history_[-1]["elapsed"]
    shares = {k: sum(r[f"seconds_{k}"] for r in svc.history_) / whole for k in PHASES}
    return {
        "seconds": seconds,
        "iterations": svc.n_iter_,
        "w": svc.coef_.ravel(),
        "support": svc.history_[-1]["n_active"],
        "finished": svc.converged_,
        "shares": shares,
    }


def liblinear(problem: Problem, C: float, limit: float = LIMIT) -> Cell:
    """LIBLINEAR's dual coordinate descent."""
    from sklearn.svm import LinearSVC

    entries = getattr(problem.X, "nnz", problem.X.size)
    most = int(np.clip(PRODUCTS / entries, 100, PASSES))
    svc = LinearSVC(C=C, loss="hinge", tol=1e-3, fit_intercept=False, max_iter=most)
    began = cpu()
    svc.fit(problem.X, problem.y)
    seconds, w, n_iter = cpu() - began, svc.coef_.ravel(), int(svc.n_iter_)
    return {"seconds": seconds, "iterations": n_iter, "w": w, "finished": n_iter < most}


def libsvm(problem: Problem, C: float, limit: float = PATIENCE) -> Cell:
    """LIBSVM with a linear kernel, the decomposition method of today. It has an intercept: no F."""
    from sklearn.svm import SVC

    svc = SVC(C=C, kernel="linear", cache_size=500, max_iter=300_000)
    began = cpu()
    svc.fit(problem.X, problem.y)
    seconds, steps = cpu() - began, int(np.sum(svc.n_iter_))
    return {
        "seconds": seconds,
        "iterations": steps,
        "support": int(svc.n_support_.sum()),
        "finished": steps < 300_000,
    }


def sgd(problem: Problem, C: float, limit: float = LIMIT) -> Cell:
    """Ten epochs of stochastic gradient descent, as in the paper."""
    from sklearn.linear_model import SGDClassifier

    how = SGDClassifier(
        alpha=1.0 / (C * problem.n), fit_intercept=False, max_iter=10, tol=None, random_state=0
    )
    began = cpu()
    how.fit(problem.X, problem.y)
    return {"seconds": cpu() - began, "iterations": 10, "w": how.coef_.ravel(), "finished": True}


def libocas(
    problem: Problem, C: float, limit: float = LIMIT, *, plain: bool = False, tol: float = TOL
) -> Cell:
    """LIBOCAS: OCAS, or its plain cutting planes. CPU seconds of the solver's share of the process."""
    path = program("svmocas")
    assert path is not None
    with scratch() as folder:
        command = [path, "-c", repr(C), "-r", str(tol), "-m", str(int(not plain))]
        # its limit is of wall time, and other work may run on the same cores
        command += ["-t", str(4 * limit), str(written(problem)), str(folder / "model")]
        before = _children()
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        seconds = _children() - before
        w = np.loadtxt(folder / "model")[:-1]
    times = {k: float(v) for k, v in re.findall(r"(\w+_time)\s*: ([\d.]+)\[s\]", text)}
    iterations = max(int(k) for k in re.findall(r"^\s*(\d+): tim=", text, re.MULTILINE))
    full = np.zeros(problem.X.shape[1])
    full[: len(w)] = w
    return {
        "seconds": seconds * times["ocas_time"] / times["total_time"],
        "iterations": iterations,
        "w": full,
        "finished": "satisfied" in text and "MaxTime" not in text.split("Stopping")[-1],
    }


#: the last problem that was written, and its file
_last: list[Any] = []


def written(problem: Problem) -> Path:
    """The problem as a text file in the format of SVM-light. Programs that follow share it."""
    from sklearn.datasets import dump_svmlight_file

    if not _last or _last[0] is not problem.X:
        folder = tempfile.TemporaryDirectory(
            prefix="maxmargin-", dir=os.environ.get("MAXMARGIN_SCRATCH")
        )
        _last[:] = [problem.X, folder]
        dump_svmlight_file(problem.X, problem.y, f"{folder.name}/rows", zero_based=False)
    return Path(_last[1].name) / "rows"


def run_program(
    name: str, options: list[str], problem: Problem, limit: float
) -> tuple[float, str, str] | None:
    """CPU seconds with reading and writing files, the output, and the model: none if it took too long."""
    path = program(name)
    assert path is not None
    most = (math.ceil(limit), math.ceil(limit) + 1)
    stop = functools.partial(resource.setrlimit, resource.RLIMIT_CPU, most)
    with scratch() as folder:
        before = _children()
        command = [path, *options, str(written(problem)), str(folder / "model")]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=stop)
        if done.returncode < 0:
            return None
        return _children() - before, done.stdout, Path(folder / "model").read_text()


def _cut_off(limit: float) -> Cell:
    return {"seconds": limit, "finished": False}


def svm_light(problem: Problem, C: float, limit: float = PATIENCE, name: str = "svm_light") -> Cell:
    """SVM-light, or SVM-perf with the papers' options. CPU seconds include reading the file."""
    options = ["-t", "0", "-e", "0.001", "-c", repr(C), "-b", "0"]
    if name == "svm_perf":  # its C is for the mean in percent
        options = ["-l", "2", "-t", "0", "--b", "0", "-e", "0.1", "-c", repr(C * problem.n / 100)]
    found = run_program(name, options, problem, limit)
    if found is None:
        return _cut_off(limit)
    seconds, output, model = found
    # SVM-perf writes its weights as one support vector
    text = output if name == "svm_perf" else model
    count = re.search(r"(\d+) # number of support vectors|Number of SV: (\d+)", text)
    support = None
    if count is not None:
        support = int(count[1]) - 1 if count[1] else int(count[2])
    w = _sum_of_rows(model, problem.X.shape[1])
    return {"seconds": seconds, "support": support, "w": w, "finished": True}


def _sum_of_rows(model: str, d: int) -> np.ndarray:
    """The weights of a model file of SVM-light: lines of a coefficient and a row."""
    w = np.zeros(d)
    for line in model.split("starting with alpha*y)\n", 1)[1].splitlines():
        first, *entries = line.split("#")[0].split()
        for entry in entries:
            index, value = entry.split(":")
            w[int(index) - 1] += float(first) * float(value)
    return w


def liblinear_program(problem: Problem, C: float, limit: float = LIMIT) -> Cell:
    """LIBLINEAR's own program. CPU seconds without those of a fit that ends after one pass."""
    options = ["-s", "3", "-c", repr(C), "-e"]
    first = run_program("liblinear", [*options, "1e9"], problem, limit)
    found = run_program("liblinear", [*options, "1e-3"], problem, limit)
    if first is None or found is None:
        return _cut_off(limit)
    seconds, output, model = found
    w = np.array(model.split("\nw\n", 1)[1].split(), dtype=np.float64)
    label = re.search(r"label (-?\d+)", model)
    full = np.zeros(problem.X.shape[1])
    full[: len(w)] = w if label is None or int(label[1]) > 0 else -w
    steps = re.search(r"#iter = (\d+)", output)
    return {
        "seconds": max(1e-3, seconds - first[0]),
        "iterations": None if steps is None else int(steps[1]),
        "w": full,
        "finished": "reaching max number" not in output,
    }


def libsvm_program(problem: Problem, C: float, limit: float = PATIENCE) -> Cell:
    """LIBSVM's own program. It has an intercept: no F. CPU seconds include reading the file."""
    found = run_program("libsvm", ["-t", "0", "-m", "500", "-c", repr(C)], problem, limit)
    if found is None:
        return _cut_off(limit)
    seconds, output, _ = found
    steps, support = (re.search(p, output) for p in (r"#iter = (\d+)", r"Total nSV = (\d+)"))
    return {
        "seconds": seconds,
        "iterations": None if steps is None else int(steps[1]),
        "support": None if support is None else int(support[1]),
        "finished": True,
    }


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


PEERS: dict[str, Callable[..., Cell]] = {
    "OCA": functools.partial(ours, line_search=True),
    "CPA": functools.partial(ours, line_search=False),
    "LinearSVC": default,
    "dual coordinates": coordinates,
    "LIBOCAS": libocas,
    "LIBOCAS, plain": functools.partial(libocas, plain=True),
    "LIBLINEAR": liblinear,
    "LIBLINEAR, program": liblinear_program,
    "SGD": sgd,
    "Vowpal Wabbit": packages.vowpal_wabbit,
    "skglm": packages.skglm,
    "SVM-perf": functools.partial(svm_light, limit=LIMIT, name="svm_perf"),
    "LIBSVM": libsvm,
    "LIBSVM, program": libsvm_program,
    "SVM-light": svm_light,
}
#: competitors that end after ten passes, whatever the objective is then
PASSES_ONLY = ("SGD", "Vowpal Wabbit")
#: what a competitor needs: a program, or a package
NEEDS = {"LIBOCAS": "svmocas", "LIBOCAS, plain": "svmocas", "SVM-perf": "svm_perf"}
NEEDS |= {"SVM-light": "svm_light", "LIBLINEAR, program": "liblinear", "LIBSVM, program": "libsvm"}
NEEDS |= {"Vowpal Wabbit": "vowpalwabbit", "skglm": "skglm"}


OURS = ("OCA", "CPA", "LinearSVC", "dual coordinates")


def origin(who: str) -> Cell:
    """What marks a fit in which no code of ours ran, so that changes of the library do not make it old."""
    return {} if who in OURS else {"sources": ""}


def available(who: str) -> bool:
    """Whether a competitor can run here."""
    need = NEEDS.get(who)
    if need is None:
        return True
    return (program(need) if need in PROGRAMS else packages.version(need)) is not None


def solve(work: Callable[..., Cell], problem: Problem, C: float, **limit: float) -> Cell:
    """One fit and its F."""
    found = work(problem, C, **limit)
    if "w" in found:
        found["F"] = objective(problem, found["w"], C)
    return found
