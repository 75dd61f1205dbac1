"""SequenceTagger(loss="logistic") compared to crfsuite's conditional random fields.

Both minimize F(w) = 1/2 |w|^2 + C sum_i -log p(y_i | x_i); crfsuite's c2 is 1 / (2 C). Data: CoNLL-2000
(chunks) and CoNLL-2002 Spanish (entities), with the features of :func:`datasets.token_features`. crfsuite is
run with all pairs of features and labels and all transitions ("all pairs": our model, except for start and
stop weights) and with the pairs that occur in the training data ("seen pairs", its default). Its weights are
put into our F, with 0 for what it does not have. No weights can have an F below our lower bound.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, peak_memory_gb

# ruff: isort: split
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasets, sequence

TITLE = "Conditional random fields: maxmargin against python-crfsuite"
SETS = ("conll2000", "conll2002 es")
C = 0.1
TOLERANCES = (1e-2, 1e-3)
#: algorithm, whether it has all pairs of features and labels, and its limit of iterations
CRFSUITE = (("lbfgs", True, 100), ("lbfgs", False, 200), ("l2sgd", False, 50))


def split(name: str, quick: bool) -> tuple[list[Any], list[Any]]:
    """(train, test) sentences."""
    if name == "conll2000":
        train, test = datasets.conll2000("train"), datasets.conll2000("test")
    else:
        train, test = datasets.conll2002("esp", "train"), datasets.conll2002("esp", "testb")
    return (train[:300], test[:100]) if quick else (train, test)


class Problem:
    """Matrices of a set, and F and test scores of any weights."""

    def __init__(self, name: str, quick: bool) -> None:
        from maxmargin.data import TokenVectorizer

        self.train, self.test = split(name, quick)
        self.vectorizer = TokenVectorizer()
        self.X = self.vectorizer.fit_transform(sequence.Features(self.train))
        self.X_test = self.vectorizer.transform(sequence.Features(self.test))
        self.lengths = [len(s) for s in self.train]
        self.lengths_test = [len(s) for s in self.test]
        self.y = [label for s in sequence.labels(self.train) for label in s]
        self.y_test = [label for s in sequence.labels(self.test) for label in s]
        self.classes = sorted(set(self.y))

    def objective(self, w: Any) -> float:
        """F(w)."""
        from maxmargin.tasks import Chain
        from maxmargin.tasks.chains.log_loss import LogLossExamples

        number = {label: k for k, label in enumerate(self.classes)}
        task = Chain(len(self.classes), self.X.shape[1])
        codes = np.array([number[label] for label in self.y])
        examples = LogLossExamples.from_stacked(task, self.X, self.lengths, codes)
        losses = examples.oracle(w, 0, len(examples)).values
        return float(0.5 * w @ w + C * losses.sum())

    def tested(self, tagger: Any) -> Cell:
        """Accuracy, and the log loss per token where all labels are known."""
        logs = tagger.log_probability(self.X_test, self.y_test, lengths=self.lengths_test)
        known = np.isfinite(logs)
        tokens = np.array(self.lengths_test)[known].sum()
        return {
            "accuracy": tagger.score(self.X_test, self.y_test, lengths=self.lengths_test),
            "log_loss": float(-logs[known].sum() / tokens),
        }


def fitted(problem: Problem, few: bool = False, **params: Any) -> Any:
    """A fit to the whole set, or to a few sentences."""
    from maxmargin import SequenceTagger

    lengths = problem.lengths[:20] if few else problem.lengths
    n = sum(lengths)
    tagger = SequenceTagger(C=C, loss="logistic", **params)
    return tagger.fit(problem.X[:n], problem.y[:n], lengths=lengths)


def ours(spec: Cell, quick: bool) -> Cell:
    """One fit, after a small one that loads the compiled functions."""
    problem = Problem(spec["set"], quick)
    fitted(problem, few=True)
    before = cpu()
    tagger = fitted(problem, tol=spec["tol"])
    seconds = cpu() - before
    return {
        "seconds": seconds,
        "objective": tagger.objective_,
        "lower_bound": tagger.lower_bound_,
        "gap": tagger.gap_,
        "passes": tagger.history_[-1]["oracle_calls"],
        "dimension": len(tagger.weights_),
        "memory_gb": peak_memory_gb(),
        **problem.tested(tagger),
    }


def crfsuite(spec: Cell, quick: bool) -> Cell:
    """One fit of crfsuite, with the objective of each iteration, and its weights in our F."""
    import pycrfsuite

    problem = Problem(spec["set"], quick)
    trace: list[list[float]] = []

    class Trainer(pycrfsuite.Trainer):  # type: ignore[misc]
        def message(self, message: str) -> None:
            if message.startswith("Loss: "):
                trace.append([cpu() - before, C * float(message.split()[1])])

    trainer = Trainer(algorithm=spec["algorithm"], verbose=True)
    for x, y in zip(sequence.Features(problem.train), sequence.labels(problem.train), strict=True):
        trainer.append(x, y)
    trainer.set_params(
        {
            "c2": 1.0 / (2.0 * C),
            "max_iterations": spec["iterations"],
            "feature.possible_states": spec["all_pairs"],
            "feature.possible_transitions": spec["all_pairs"],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        before = cpu()
        trainer.train(path)
        seconds, memory = cpu() - before, peak_memory_gb()
        model = pycrfsuite.Tagger()
        model.open(path)
        w, dimension = _weights(problem, model.info())
    tagger = fitted(problem, max_iter=1, tol=1e6)
    tagger.weights_ = w
    return {
        "seconds": seconds,
        "objective": problem.objective(w),
        "iterations": len(trace),
        "dimension": dimension,
        "memory_gb": memory,
        "trace": trace,
        **problem.tested(tagger),
    }


def _weights(problem: Problem, info: Any) -> tuple[Any, int]:
    """crfsuite's weights in the order of ours; what it does not have is 0."""
    K, d = len(problem.classes), problem.X.shape[1]
    label = {name: k for k, name in enumerate(problem.classes)}
    column = {name: j for j, name in enumerate(problem.vectorizer.feature_names_)}
    w = np.zeros(d * K + K * K + 2 * K)
    for (name, y), value in info.state_features.items():
        w[column[name] * K + label[y]] = value
    for (a, b), value in info.transitions.items():
        w[d * K + label[a] * K + label[b]] = value
    return w, len(info.state_features) + len(info.transitions)


def cell(spec: Cell, bench: Bench) -> Cell:
    """One process."""
    return (ours if spec["program"] == "maxmargin" else crfsuite)(spec, bench.quick)


def _key(name: str, algorithm: str, all_pairs: bool) -> str:
    return f"{name} {algorithm} {'all' if all_pairs else 'seen'}"


def table(bench: Bench) -> None:
    """All cells, the programs in turn."""
    for name in SETS:
        for tol in TOLERANCES:
            spec = {"program": "maxmargin", "set": name, "tol": tol}
            bench.run(f"{name} maxmargin {tol:g}", spec)
        for algorithm, all_pairs, iterations in CRFSUITE:
            spec = {"program": "crfsuite", "set": name, "algorithm": algorithm}
            spec |= {"all_pairs": all_pairs, "iterations": iterations}
            bench.run(_key(name, algorithm, all_pairs), spec)
        report(bench)


def report(bench: Bench) -> None:
    """Tables from the finished cells."""
    rows: list[Row] = []
    claims: list[Row] = []
    for name in SETS:
        mine = {tol: bench.get(f"{name} maxmargin {tol:g}") for tol in TOLERANCES}
        found = {
            (algorithm, all_pairs): bench.get(_key(name, algorithm, all_pairs))
            for algorithm, all_pairs, _ in CRFSUITE
        }
        rows += [
            _row(name, f"maxmargin tol={tol:g}", c, f"{c['passes']:.1f} passes")
            for tol, c in mine.items()
            if c
        ]
        for (algorithm, all_pairs), c in found.items():
            if c:
                program = f"crfsuite {algorithm}, {'all' if all_pairs else 'seen'} pairs"
                rows.append(_row(name, program, c, f"{c['iterations']} iterations"))
        lower = max((c["lower_bound"] for c in mine.values() if c), default=-np.inf)
        for (algorithm, all_pairs), c in found.items():
            if c:
                claims.append(_claim(name, algorithm, all_pairs, c, lower, mine))
    notes = """
*F* is 1/2 |w|^2 + C sum_i -log p(y_i | x_i) at the weights of each program, computed by the same code.
*log loss* is per test token, over the sentences whose labels all occur in the training data. *CPU s* is the
trainer alone, one run, without the features and the matrix. *memory*
is the peak of the process, including data in the form of both programs for crfsuite's rows.
"""
    bench.save(
        TITLE,
        [
            ("training", f"Training at C={C:g} (c2={1 / (2 * C):g})", rows, notes),
            (
                "claims",
                "Bounds, and time to equal F",
                claims,
                "*below our bound*: whether the weights of crfsuite have an F below our largest lower bound. "
                "*CPU s to 1 %*: the time until F is at most 1 % above that bound, by the objective that "
                "crfsuite reports after each iteration; ours is the whole fit with that tolerance, including "
                "its proof. never: crfsuite ends above it (without start and stop weights, and with seen "
                "pairs only, its optimum is larger).",
            ),
        ],
    )


def _row(name: str, program: str, c: Cell, work: str) -> Row:
    return {
        "set": name,
        "program": program,
        "weights": f"{c['dimension']:,}",
        "work": work,
        "CPU s": c["seconds"],
        "F": f"{c['objective']:.2f}",
        "certified gap": c.get("gap"),
        "test accuracy %": f"{100 * c['accuracy']:.2f}",
        "test log loss": f"{c['log_loss']:.4f}",
        "memory GB": c["memory_gb"],
    }


def _claim(
    name: str, algorithm: str, all_pairs: bool, c: Cell, lower: float, mine: dict[float, Any]
) -> Row:
    out: Row = {
        "set": name,
        "crfsuite": f"{algorithm}, {'all' if all_pairs else 'seen'} pairs",
        "F": f"{c['objective']:.2f}",
        "our lower bound": f"{lower:.2f}",
        "below our bound": bool(c["objective"] < lower),
    }
    for tol, own in mine.items():
        if own:
            there = [t for t, value in c["trace"] if value <= (1.0 + tol) * lower]
            then = f"{there[0]:.1f}" if there else "never"
            out[f"CPU s to {100 * tol:g} %: crfsuite / ours"] = f"{then} / {own['seconds']:.1f}"
    return out


if __name__ == "__main__":
    command_line("crf", TITLE, cell, table)
