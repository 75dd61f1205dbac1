"""The papers' competitors on two-class problems without an intercept: one fit each, CPU seconds and F.

Programs run if they are found: ``svmocas``, ``liblinear-train`` and ``svm-train`` of Debian's libocas-tools,
liblinear-tools and libsvm-tools (or MAXMARGIN_SVMOCAS, MAXMARGIN_LIBLINEAR, MAXMARGIN_LIBSVM), SVM-light's
``svm_learn`` (MAXMARGIN_SVM_LIGHT) and SVM-perf's (MAXMARGIN_SVM_PERF), which are not packaged.
"LIBLINEAR", "LIBSVM" and SGD are those of scikit-learn. Vowpal Wabbit and skglm run if they are installed.
"""

from __future__ import annotations

from benchmarks.common import Cell, cpu, scratch

# ruff: isort: split
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.papers import packages
from benchmarks.problems import Problem, Watch

TOL = 1e-3
#: CPU seconds that a fit may take
LIMIT = 60.0
#: wall seconds after which a program is stopped
PATIENCE = 240.0
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


def ours(problem: Problem, C: float, *, line_search: bool, mu: float | None = None) -> Cell:
    """Our cutting planes: optimized or plain."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane

    how = CuttingPlane(line_search=line_search, mu=mu)
    watch = Watch(LIMIT)
    svc = LinearSVC(C, tol=TOL, fit_intercept=False, solver=how, callbacks=[watch])
    watch.began = began = cpu()
    svc.fit(problem.X, problem.y)
    return {
        "seconds": cpu() - began,
        "iterations": svc.n_iter_,
        "w": svc.coef_.ravel(),
        "support": svc.history_[-1]["n_active"],
        "finished": svc.converged_,
    }


def default(problem: Problem, C: float) -> Cell:
    """Our default solver."""
    from maxmargin import LinearSVC

    few = problem.some()  # the same settings load the same compiled functions
    LinearSVC(C * problem.n / few.n, tol=TOL, fit_intercept=False).fit(few.X, few.y)
    began = cpu()
    svc = LinearSVC(C, tol=TOL, fit_intercept=False).fit(problem.X, problem.y)
    seconds, w = cpu() - began, svc.coef_.ravel()
    return {"seconds": seconds, "iterations": svc.n_iter_, "w": w, "finished": svc.converged_}


def liblinear(problem: Problem, C: float) -> Cell:
    """LIBLINEAR's dual coordinate descent."""
    from sklearn.svm import LinearSVC

    svc = LinearSVC(C=C, loss="hinge", tol=1e-3, fit_intercept=False, max_iter=2000)
    began = cpu()
    svc.fit(problem.X, problem.y)
    seconds, w, n_iter = cpu() - began, svc.coef_.ravel(), int(svc.n_iter_)
    return {"seconds": seconds, "iterations": n_iter, "w": w, "finished": n_iter < 2000}


def libsvm(problem: Problem, C: float) -> Cell:
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


def sgd(problem: Problem, C: float) -> Cell:
    """Ten epochs of stochastic gradient descent, as in the paper."""
    from sklearn.linear_model import SGDClassifier

    how = SGDClassifier(
        alpha=1.0 / (C * problem.n), fit_intercept=False, max_iter=10, tol=None, random_state=0
    )
    began = cpu()
    how.fit(problem.X, problem.y)
    return {"seconds": cpu() - began, "iterations": 10, "w": how.coef_.ravel(), "finished": True}


def libocas(problem: Problem, C: float, *, plain: bool = False, tol: float = TOL) -> Cell:
    """LIBOCAS: OCAS, or its plain cutting planes. CPU seconds of the solver's share of the process."""
    path = program("svmocas")
    assert path is not None
    from sklearn.datasets import dump_svmlight_file

    with scratch() as folder:
        dump_svmlight_file(problem.X, problem.y, str(folder / "rows"), zero_based=False)
        command = [path, "-c", repr(C), "-r", str(tol), "-m", str(int(not plain))]
        command += ["-t", str(LIMIT), str(folder / "rows"), str(folder / "model")]
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


def run_program(name: str, options: list[str], problem: Problem) -> tuple[float, str, str] | None:
    """CPU seconds with reading and writing files, the output, and the model: none if it took too long."""
    from sklearn.datasets import dump_svmlight_file

    path = program(name)
    assert path is not None
    with scratch() as folder:
        dump_svmlight_file(problem.X, problem.y, str(folder / "rows"), zero_based=False)
        before = _children()
        command = [path, *options, str(folder / "rows"), str(folder / "model")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return None
        return _children() - before, done.stdout, Path(folder / "model").read_text()


def _cut_off() -> Cell:
    return {"seconds": PATIENCE, "finished": False}


def svm_light(problem: Problem, C: float, name: str = "svm_light") -> Cell:
    """SVM-light, or SVM-perf with the papers' options. CPU seconds include reading the file."""
    options = ["-t", "0", "-e", "0.001", "-c", repr(C), "-b", "0"]
    if name == "svm_perf":  # its C is for the mean in percent
        options = ["-l", "2", "-t", "0", "--b", "0", "-e", "0.1", "-c", repr(C * problem.n / 100)]
    found = run_program(name, options, problem)
    if found is None:
        return _cut_off()
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


def liblinear_program(problem: Problem, C: float) -> Cell:
    """LIBLINEAR's own program. CPU seconds without those of a fit that ends after one pass."""
    options = ["-s", "3", "-c", repr(C), "-e"]
    first, found = (run_program("liblinear", [*options, e], problem) for e in ("1e9", "1e-3"))
    if first is None or found is None:
        return _cut_off()
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


def libsvm_program(problem: Problem, C: float) -> Cell:
    """LIBSVM's own program. It has an intercept: no F. CPU seconds include reading the file."""
    found = run_program("libsvm", ["-t", "0", "-m", "500", "-c", repr(C)], problem)
    if found is None:
        return _cut_off()
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


PEERS: dict[str, Callable[[Problem, float], Cell]] = {
    "OCA": lambda p, C: ours(p, C, line_search=True),
    "CPA": lambda p, C: ours(p, C, line_search=False),
    "LinearSVC": default,
    "LIBOCAS": libocas,
    "LIBOCAS, plain": lambda p, C: libocas(p, C, plain=True),
    "LIBLINEAR": liblinear,
    "LIBLINEAR, program": liblinear_program,
    "SGD": sgd,
    "Vowpal Wabbit": packages.vowpal_wabbit,
    "skglm": packages.skglm,
    "SVM-perf": lambda p, C: svm_light(p, C, "svm_perf"),
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


def available(who: str) -> bool:
    """Whether a competitor can run here."""
    need = NEEDS.get(who)
    if need is None:
        return True
    return (program(need) if need in PROGRAMS else packages.version(need)) is not None


def solve(work: Callable[[Problem, float], Cell], problem: Problem, C: float) -> Cell:
    """One fit and its F."""
    found = work(problem, C)
    if "w" in found:
        found["F"] = objective(problem, found["w"], C)
    return found
