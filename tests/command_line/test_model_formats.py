"""Linear models in the formats of LIBLINEAR and SVM-light, read and written as these programs do."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import maxmargin

TRAIN, PREDICT = shutil.which("liblinear-train"), shutil.which("liblinear-predict")
needs_liblinear = pytest.mark.skipif(
    TRAIN is None or PREDICT is None,
    reason="requires LIBLINEAR's programs: apt-get install liblinear-tools",
)


def fit(run, data, path, *options):
    outcome = run("fit", data, "--output", path, *options)
    assert outcome.code == 0, outcome
    return path


@needs_liblinear
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("two classes", ["-s", "3"]),
        ("two classes", ["-s", "1", "-B", "1"]),
        ("two classes", ["-s", "4"]),
        ("several classes", ["-s", "1", "-B", "2"]),
        ("several classes", ["-s", "4"]),
        ("numbers", ["-s", "13", "-B", "1"]),
        ("numbers", ["-s", "11"]),
    ],
)
def test_models_of_liblinear_predict_what_liblinear_predicts(run, files, tmp_path, kind, options):
    model, labels = tmp_path / "theirs.model", tmp_path / "labels"
    subprocess.run([TRAIN, "-q", *options, files[kind], model], check=True)
    subprocess.run([PREDICT, files[kind], model, labels], check=True, stdout=subprocess.DEVNULL)
    theirs = [float(line) for line in labels.read_text().split()]
    ours = [float(line) for line in run("predict", model, files[kind]).out.split()]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-9)  # they write 6 digits
    converted = tmp_path / "ours.safetensors"
    assert run("convert", model, converted).code == 0
    assert run("predict", converted, files[kind]).out == run("predict", model, files[kind]).out
    assert run("inspect", model).out.splitlines()[1] == "a model of liblinear: no certificate"


@needs_liblinear
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("two classes", []),
        ("two classes", ["--no-intercept", "--loss", "squared_hinge"]),
        ("two classes", ["--estimator", "MeasureSVC", "--measure", "f1"]),
        ("several classes", []),
        ("several classes", ["--multi-class", "ovr"]),
        ("numbers", []),
        ("queries", []),
    ],
)
def test_liblinear_predicts_with_our_models(run, files, tmp_path, kind, options):
    ours, theirs = fit(run, files[kind], tmp_path / "m.safetensors", *options), tmp_path / "m.txt"
    assert run("convert", ours, theirs, "--to", "liblinear").code == 0
    data = tmp_path / "data.svm"
    data.write_text(files[kind].read_text().replace("qid:", "").replace("  ", " "))
    if kind == "queries":
        lines = files[kind].read_text().splitlines()
        data.write_text(
            "\n".join(" ".join(v for v in li.split() if "qid" not in v) for li in lines) + "\n"
        )
    labels = tmp_path / "labels"
    subprocess.run([PREDICT, data, theirs, labels], check=True, stdout=subprocess.DEVNULL)
    found = [float(line) for line in labels.read_text().split()]
    expected = [float(line) for line in run("predict", ours, files[kind]).out.split()]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["two classes", "several classes", "numbers"])
def test_liblinear_models_come_back_unchanged(run, files, tmp_path, kind):
    ours = fit(run, files[kind], tmp_path / "a.safetensors")
    assert run("convert", ours, tmp_path / "b.txt", "--to", "liblinear").code == 0
    assert run("convert", tmp_path / "b.txt", tmp_path / "c.safetensors").code == 0
    first, second = maxmargin.load(ours), maxmargin.load(tmp_path / "c.safetensors")
    assert (first.coef_ == second.coef_).all()
    assert (first.intercept_ == second.intercept_).all()
    assert not second.converged_
    assert second.lower_bound_ == -np.inf


def svm_light_scores(path, X):
    """An independent reader: what svm_classify computes from a model with a linear kernel."""
    lines = path.read_text().split("\n")
    assert lines[0].startswith("SVM-light Version V")
    numbers = [line.split(" #")[0].strip() for line in lines[1:11]]
    assert numbers[0] == "0"
    n_features, n_vectors, b = int(numbers[6]), int(numbers[8]) - 1, float(numbers[9])
    assert n_features == X.shape[1]
    scores = np.full(len(X), -b)
    for line in lines[11 : 11 + n_vectors]:
        alpha, *pairs = line[: line.index("#")].split()
        vector = np.zeros(n_features)
        for pair in pairs:
            index, value = pair.split(":")
            vector[int(index) - 1] = float(value)
        scores += float(alpha) * (X @ vector)
    assert lines[11 + n_vectors :] == [""]
    return scores


@pytest.mark.parametrize("kind", ["two classes", "queries", "numbers"])
def test_svm_light_models_have_our_scores(run, files, problems, tmp_path, kind):
    ours, theirs = fit(run, files[kind], tmp_path / "m.safetensors"), tmp_path / "m.dat"
    assert run("convert", ours, theirs, "--to", "svm-light").code == 0
    expected = run("predict", ours, files[kind], "--scores").out.split()
    found = svm_light_scores(theirs, problems["X"])
    np.testing.assert_allclose(found, [float(v) for v in expected], rtol=1e-9, atol=1e-12)
    again = run("predict", theirs, files["two classes"], "--scores").out.split()
    np.testing.assert_allclose([float(v) for v in again], found, rtol=1e-9, atol=1e-12)


SVM_LIGHT = """\
SVM-light Version V6.02
0 # kernel type
3 # kernel parameter -d\x20
1 # kernel parameter -g\x20
1 # kernel parameter -s\x20
1 # kernel parameter -r\x20
empty# kernel parameter -u\x20
6 # highest feature index\x20
3 # number of training documents\x20
3 # number of support vectors plus 1\x20
0.5 # threshold b, each following line is a SV (starting with alpha*y)
0.25 1:1 3:2 # first
-0.5 2:1 3:0.5 #
"""


def test_support_vectors_are_added_up(run, files, problems, tmp_path):
    path = tmp_path / "model"
    path.write_text(SVM_LIGHT)
    found = [float(v) for v in run("predict", path, files["two classes"], "--scores").out.split()]
    np.testing.assert_allclose(found, problems["X"] @ [0.25, -0.5, 0.25, 0, 0, 0] - 0.5, rtol=1e-12)
    labels = run("predict", path, files["two classes"]).out.split()
    assert labels == ["1" if score > 0 else "-1" for score in found]


def test_what_the_formats_cannot_hold_is_refused(refused, run, files, tmp_path):
    several = fit(run, files["several classes"], tmp_path / "several.safetensors")
    assert "-1 and 1" in refused("convert", several, tmp_path / "x", "--to", "svm-light")
    tagger = fit(run, files["columns"], tmp_path / "tagger.safetensors")
    assert "no linear scores" in refused("convert", tagger, tmp_path / "x", "--to", "liblinear")
    assert "use --to with one of" in refused("convert", several, tmp_path / "x")
    named = tmp_path / "named.csv"
    named.write_text("a,y\n0,no\n1,yes\n")
    model = fit(run, named, tmp_path / "named.safetensors")
    assert "whole numbers" in refused("convert", model, tmp_path / "x", "--to", "liblinear")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0 # kernel type", "2 # kernel type", "linear kernel"),
        ("6 # highest", "x # highest", "header"),
        ("3 # number of support", "9 # number of support", "ends before the last"),
        ("-0.5 2:1", "-0.5 20:1", "line 13"),
    ],
)
def test_damaged_svm_light_models_are_refused(refused, files, tmp_path, old, new, message):
    path = tmp_path / "model"
    path.write_text(SVM_LIGHT.replace(old, new))
    assert message in refused("predict", path, files["two classes"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nr_feature 2", "nr_feature 7", "weights, but the header announces"),
        ("nr_class 2", "nr_class x", "header"),
        ("label 1 -1", "label 1 1", "the labels are"),
        ("0.5", "half", "not a number"),
        ("L2R_L2LOSS_SVC", "ONECLASS_SVM", "one class"),
    ],
)
def test_damaged_liblinear_models_are_refused(refused, files, tmp_path, old, new, message):
    text = (
        "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n0.5 \n-1 \n"
    )
    path = tmp_path / "model"
    path.write_text(text.replace(old, new))
    assert message in refused("predict", path, files["two classes"])
