"""Every row of the tables of options (docs/option_tables) is run, here and by the other program if there."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import maxmargin

TABLES = Path(__file__).resolve().parents[2] / "docs" / "option_tables"


def rows():
    for path in sorted(TABLES.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if number > 1:
                    yield pytest.param(path.stem, *row, id=f"{path.stem}-line{number}")


def options_of(cell):
    """The options in a cell: what is between double backquotes."""
    return shlex.split(" ".join(re.findall(r"``(.*?)``", cell)))


@pytest.mark.parametrize(("program", "theirs", "labels", "ours", "remarks"), list(rows()))
def test_the_row_runs(run, files, tmp_path, program, theirs, labels, ours, remarks):
    if not ours:
        assert re.match("not supported|leave them out|SVM-light uses", remarks)
        return
    command, *options = options_of(ours)
    model = tmp_path / "model.safetensors"
    options = [str(model) if option == "FILE" else option for option in options]
    outcome = run(command, files[labels], *options, *(["--json"] if command == "fit" else []))
    assert outcome.code == (3 if "the exit code is 3" in remarks else 0), outcome
    if program == "crfsuite_learn":
        learn_with_crfsuite(theirs, files[labels], tmp_path)
    if program == "train" and command == "fit":
        compare_with_liblinear(run, theirs, files[labels], options, tmp_path)


def compare_with_liblinear(run, theirs, data, options, folder):
    """LIBLINEAR's weights, trained to a high precision, lie between our bounds: it is the same problem."""
    liblinear = pytest.importorskip("liblinear.liblinearutil")
    precise = [option for option in options_of(theirs) if option not in ("-e", "0.001")]
    y, X = liblinear.svm_read_problem(str(data), return_scipy=True)
    model = liblinear.train(y, X, " ".join(["-q", *precise, "-e", "1e-8"]))
    path = folder / "ours.safetensors"
    found = run("fit", data, *options, "--json", "--tol", "1e-6", "--output", path).json
    value = objective(maxmargin.load(path), *their_weights(model), X, y)
    assert found["lower_bound"] <= value * (1 + 1e-9)
    # its dual solvers end after 1000 iterations, up to 0.3 % above the optimum of these problems
    assert value <= found["objective"] * (1 + 5e-3)


def their_weights(model):
    """Weights and intercepts of LIBLINEAR: a row per class in our order, or one for the second class."""
    labels = model.get_labels()
    if model.is_regression_model():
        rows = [model.get_decfun()]
    elif len(labels) == 2:
        rows = [model.get_decfun(labels.index(max(labels)))]
    else:
        rows = [model.get_decfun(k) for k in np.argsort(labels)]
    return np.array([w for w, _ in rows]), np.array([b for _, b in rows])


def objective(ours, W, b, X, y):
    """The objective of our estimator at these weights, by plain code."""
    scores = X @ W.T + b
    if isinstance(ours, maxmargin.LinearSVR):
        losses = np.maximum(np.abs(scores[:, 0] - y) - ours.epsilon, 0.0)
    elif ours.multi_class == "crammer_singer":
        if len(W) == 1:  # of two vectors, each other's negative
            W, b = np.vstack([-W, W]) / 2.0, np.r_[-b, b] / 2.0
            scores = X @ W.T + b
        own = np.searchsorted(ours.classes_, y)
        margins = scores - scores[np.arange(len(y)), own][:, None] + 1.0
        margins[np.arange(len(y)), own] = 0.0
        losses = margins.max(axis=1)
    else:
        signs = np.where(y[:, None] == ours.classes_[-len(W) :], 1.0, -1.0)
        losses = np.maximum(1.0 - signs * scores, 0.0)
    if ours.loss.startswith("squared") and getattr(ours, "multi_class", "") != "crammer_singer":
        losses = losses**2
    multipliers = getattr(ours, "class_weight", None) or {}
    weight = np.array([multipliers.get(label, 1.0) for label in y.tolist()])
    if ours.penalize_intercept:
        W = np.c_[W, b / ours.intercept_scaling]
    return 0.5 * np.sum(W**2) + ours.C * np.sum(weight @ losses)


def learn_with_crfsuite(theirs, data, folder):
    """CRFsuite accepts these options for the same file."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    from maxmargin.command_line.examples import ReaderOptions
    from maxmargin.command_line.reading import read_crfsuite

    words = options_of(theirs)
    algorithm = words[words.index("-a") + 1] if "-a" in words else "lbfgs"
    params = [words[k + 1].split("=") for k, word in enumerate(words) if word == "-p"]
    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    assert {name for name, _ in params} <= set(trainer.params())
    trainer.set_params(
        {name: float(value) if "." in value else int(value) for name, value in params}
    )
    examples = read_crfsuite(str(data), ReaderOptions()).examples
    for x, y in zip(examples.X, examples.y, strict=True):
        trainer.append(x, y)
    trainer.train(str(folder / "model.crfsuite"))
    assert (folder / "model.crfsuite").stat().st_size > 0


def test_the_page_shows_every_table():
    page = (TABLES.parent / "command_line.rst").read_text()
    assert {f"option_tables/{path.name}" for path in TABLES.glob("*.csv")} == set(
        re.findall(r":file: (\S+)", page)
    )


def test_c_of_svm_rank_weighs_the_mean_over_queries(run, files, problems, tmp_path):
    """1/2 |w|^2 + C / n sum over queries of the swapped pairs' hinge losses, computed pair by pair."""
    model = tmp_path / "ranker.safetensors"
    found = run("fit", files["queries"], "--C", "20/n", "--json", "-o", model)
    w = maxmargin.load(model).coef_
    y, groups = problems["queries"]
    scores, losses = problems["X"] @ w, 0.0
    for query in np.unique(groups):
        own = np.flatnonzero(groups == query)
        for i in own:
            for j in own:
                if y[i] > y[j]:
                    losses += max(0.0, 1.0 - (scores[i] - scores[j]))
    assert found.json["objective"] == pytest.approx(0.5 * w @ w + 20 / 12 * losses, rel=1e-9)
