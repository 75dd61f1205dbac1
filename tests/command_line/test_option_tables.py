"""Every row of the tables of options (docs/option_tables) is run, here and by the other program if there."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import maxmargin
from maxmargin.command_line.model_formats import liblinear

TABLES = Path(__file__).resolve().parents[2] / "docs" / "option_tables"
TRAIN = shutil.which("liblinear-train")


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
    if program == "train" and command == "fit" and "LIBLINEAR 2.40" not in remarks:
        compare_with_liblinear(run, theirs, files[labels], options, tmp_path)


def compare_with_liblinear(run, theirs, data, options, folder):
    """LIBLINEAR's weights, trained to a high precision, lie between our bounds: it is the same problem."""
    if TRAIN is None:
        pytest.skip("requires LIBLINEAR's programs: apt-get install liblinear-tools")
    precise = [option for option in options_of(theirs) if option not in ("-e", "0.001")]
    model = folder / "theirs.model"
    subprocess.run([TRAIN, "-q", *precise, "-e", "1e-8", data, model], check=True)
    found = run("fit", data, *options, "--json", "--tol", "1e-6").json
    value = objective(liblinear.read(str(model)), run, data, options, folder)
    assert found["lower_bound"] <= value * (1 + 1e-9)
    # its dual solvers end after 1000 iterations, up to 0.3 % above the optimum of these problems
    assert value <= found["objective"] * (1 + 5e-3)


def objective(linear, run, data, options, folder):
    """Our objective at their weights, by the code of ``verify``."""
    from maxmargin.command_line import fitting, objectives
    from maxmargin.command_line.model_files import load_model
    from maxmargin.command_line.readers.examples import ReaderOptions
    from maxmargin.command_line.readers.reading import read_examples

    path = folder / "ours.safetensors"
    assert run("fit", data, *options, "--output", path).code == 0
    estimator = load_model(str(path)).estimator
    estimator.coef_ = linear.coef if estimator.coef_.ndim == 2 else linear.coef[0]
    estimator.intercept_ = linear.intercept
    examples = read_examples(str(data), ReaderOptions()).examples
    return objectives.objective(estimator, fitting.training(examples))


def learn_with_crfsuite(theirs, data, folder):
    """CRFsuite accepts these options for the same file."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    from maxmargin.command_line.readers import crfsuite
    from maxmargin.command_line.readers.examples import ReaderOptions

    words = options_of(theirs)
    algorithm = words[words.index("-a") + 1] if "-a" in words else "lbfgs"
    params = [words[k + 1].split("=") for k, word in enumerate(words) if word == "-p"]
    trainer = pycrfsuite.Trainer(algorithm, verbose=False)
    assert {name for name, _ in params} <= set(trainer.params())
    trainer.set_params(
        {name: float(value) if "." in value else int(value) for name, value in params}
    )
    examples = crfsuite.read(str(data), ReaderOptions()).examples
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
