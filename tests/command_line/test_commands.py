"""fit, predict, evaluate, cv: what they print is what the library computes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score

import maxmargin
from maxmargin.persistence import read_notes
from maxmargin.testing import binary_objective


@pytest.fixture
def fitted(run, files, tmp_path):
    """Fit a file and return the path of the model."""

    def call(kind, *options):
        path = tmp_path / f"{kind.replace(' ', '_')}.safetensors"
        outcome = run("fit", files[kind], "--output", path, *options)
        assert outcome.code == 0, outcome
        return path

    return call


def test_fit_prints_the_certificate_as_json(run, files, problems):
    found = run("fit", files["two classes"], "--C", 0.1, "--json").json
    assert found["estimator"] == "LinearSVC"
    assert (found["n_samples"], found["n_features"], found["n_classes"]) == (120, 6, 2)
    assert found["certified"] is True
    assert found["lower_bound"] <= found["objective"]
    assert found["gap"] <= found["tol"] == 1e-3
    svc = maxmargin.LinearSVC(C=0.1).fit(problems["X"], problems["two classes"])
    assert found["objective"] == pytest.approx(svc.objective_, rel=2e-3)


def test_fit_without_a_certificate_says_null(run, files):
    kernel = ["--estimator", "KernelSVC", "--kernel", "sigmoid"]
    outcome = run("fit", files["two classes"], "--json", *kernel)
    assert outcome.code == 3
    assert outcome.json["certified"] is False
    assert outcome.json["lower_bound"] is None


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        ("two classes", [], "LinearSVC"),
        ("several classes", [], "LinearSVC"),
        ("numbers", [], "LinearSVR"),
        ("queries", [], "RankSVM"),
        ("columns", [], "SequenceTagger"),
        ("names", [], "SequenceTagger"),
        ("sequences", ["--format", "svm-hmm"], "SequenceTagger"),
        ("sequences", ["--estimator", "sequencetagger"], "SequenceTagger"),
    ],
)
def test_the_estimator_follows_from_the_input(run, files, kind, options, name):
    assert run("fit", files[kind], "--json", *options).json["estimator"] == name


def test_an_option_of_regression_selects_it(run, files):
    found = run("fit", files["several classes"], "--epsilon", 0.1, "--json").json
    assert found["estimator"] == "LinearSVR"


def test_many_whole_numbers_as_labels_suggest_regression(run, files, tmp_path):
    path = tmp_path / "prices.csv"
    lines = [f"{k % 7},{k % 5},{1000 + k % 150}" for k in range(300)]
    path.write_text("\n".join(["rooms,storey,label", *lines]) + "\n")
    outcome = run("fit", path, "--max-iter", 1)
    assert "150 different whole numbers, which are trained as classes" in outcome.err
    assert "--estimator LinearSVR, or --epsilon" in outcome.err
    assert "different whole numbers" not in run("fit", path, "--epsilon", 1).err
    assert "different whole numbers" not in run("fit", files["several classes"]).err


def test_predict_writes_the_labels_of_the_library(run, fitted, files, problems, tmp_path):
    for kind in ("two classes", "several classes"):
        model, out = fitted(kind), tmp_path / "labels.txt"
        assert run("predict", model, files[kind], "--output", out).code == 0
        labels = [int(line) for line in out.read_text().splitlines()]
        assert labels == maxmargin.load(model).predict(problems["X"]).tolist()


def test_scores_are_those_of_the_library(run, fitted, files, problems):
    model = fitted("two classes")
    scores = [float(v) for v in run("predict", model, files["two classes"], "--scores").out.split()]
    expected = maxmargin.load(model).decision_function(problems["X"])
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    model = fitted("several classes")
    head, *lines = run("predict", model, files["several classes"], "--scores").out.splitlines()
    assert head == "# 1 2 3 4"
    expected = maxmargin.load(model).decision_function(problems["X"])
    np.testing.assert_allclose([[*map(float, v.split())] for v in lines], expected, rtol=1e-12)


def test_probabilities_are_those_of_the_library(run, fitted, files, problems, tmp_path):
    model, path = tmp_path / "logistic.safetensors", files["several classes"]
    assert (
        run("fit", path, "--loss", "logistic", "--multi-class", "multinomial", "-o", model).code
        == 0
    )
    head, *lines = run("predict", model, path, "--probabilities").out.splitlines()
    assert head == "# 1 2 3 4"
    expected = maxmargin.load(model).predict_proba(problems["X"])
    np.testing.assert_allclose([[*map(float, v.split())] for v in lines], expected, rtol=1e-12)
    refused = run("predict", fitted("several classes"), path, "--probabilities")
    assert refused.code != 0
    assert "--loss logistic" in refused.err


def test_unknown_features_of_a_test_file_are_ignored(run, fitted, files, tmp_path):
    model, wide = fitted("two classes"), tmp_path / "wide.svm"
    lines = files["two classes"].read_text().splitlines()
    wide.write_text("\n".join(f"{line} 90:5" for line in lines) + "\n")
    assert run("predict", model, wide).out == run("predict", model, files["two classes"]).out


def test_sequences_are_written_with_an_empty_line_after_each(run, fitted, files, sentences):
    model = fitted("columns")
    out = run("predict", model, files["columns"]).out
    blocks = [block.split("\n") for block in out.rstrip("\n").split("\n\n")]
    assert [len(block) for block in blocks] == [len(sentence) for sentence in sentences]
    pairs = [
        (a, y)
        for b, s in zip(blocks, sentences, strict=True)
        for a, (_, y) in zip(b, s, strict=True)
    ]
    right = sum(a == y for a, y in pairs)
    total = sum(map(len, sentences))
    found = json.loads(run("evaluate", model, files["columns"], "--json").out)
    assert found["accuracy over tokens"] == pytest.approx(right / total)
    assert right / total > 0.95


def test_a_model_reads_files_without_labels(run, fitted, files, tmp_path, monkeypatch):
    model, words = fitted("columns"), tmp_path / "words.txt"
    lines = files["columns"].read_text().splitlines()
    words.write_text("\n".join(line.split(" ")[0] for line in lines) + "\n")
    assert run("predict", model, words).out == run("predict", model, files["columns"]).out


def test_evaluate_agrees_with_scikit_learn(run, fitted, files, problems):
    model = fitted("two classes")
    found = run("evaluate", model, files["two classes"], "--json").json
    svc, X, y = maxmargin.load(model), problems["X"], problems["two classes"]
    assert found["accuracy"] == pytest.approx(svc.score(X, y))
    assert found["F1 of 1"] == pytest.approx(f1_score(y, svc.predict(X)))
    assert found["ROC AUC"] == pytest.approx(roc_auc_score(y, svc.decision_function(X)))
    assert "ROC AUC" in run("evaluate", model, files["two classes"]).out


def test_evaluate_shows_the_confusion_matrix(run, fitted, files, problems):
    model, X, y = fitted("several classes"), problems["X"], problems["several classes"]
    found = run("evaluate", model, files["several classes"], "--json").json
    predicted = maxmargin.load(model).predict(X)
    assert found["classes"] == [1, 2, 3, 4]
    assert found["confusion_matrix"] == confusion_matrix(y, predicted).tolist()
    lines = run("evaluate", model, files["several classes"]).out.splitlines()
    assert lines[-1].split() == ["4", *map(str, found["confusion_matrix"][-1])]


def test_fit_without_an_output_file_warns_before_it_works(run, files, tmp_path):
    missing = run("fit", tmp_path / "missing.svm")
    first, second = missing.err.splitlines()
    assert "the model will not be written; use --output FILE" in first
    assert "no such file" in second
    done = run("fit", files["two classes"])
    assert done.err.count("not be written") == 1
    assert "written" not in done.out
    assert run("fit", files["two classes"], "-o", tmp_path / "m").err == ""


def test_evaluate_of_regression_and_ranking(run, fitted, files, problems):
    model = fitted("numbers")
    found = run("evaluate", model, files["numbers"], "--json").json
    expected = maxmargin.load(model).score(problems["X"], problems["numbers"])
    assert found["R2"] == pytest.approx(expected)
    model, (y, groups) = fitted("queries"), problems["queries"]
    found = run("evaluate", model, files["queries"], "--json").json
    expected = maxmargin.load(model).score(problems["X"], y, groups)
    assert found["pairs in the right order"] == pytest.approx(expected)
    assert found["NDCG@10"] == pytest.approx(_ndcg(maxmargin.load(model), problems["X"], y, groups))


def _ndcg(model, X, y, groups):
    from sklearn.metrics import ndcg_score

    scores = model.predict(X)
    parts = [
        ndcg_score([2.0 ** y[groups == q] - 1], [scores[groups == q]], k=10, ignore_ties=True)
        for q in np.unique(groups)
    ]
    return np.mean(parts)


def test_spans_are_counted_as_conlleval_does():
    from maxmargin.metrics import spans

    assert spans(["B-A", "I-A", "B-A", "I-B", "O", "I-B"]) == {
        (0, 2, "A"), (2, 3, "A"), (3, 4, "B"), (5, 6, "B"),
    }  # fmt: skip
    assert spans(["S-A", "B-A", "E-A", "O"]) == {(0, 1, "A"), (1, 3, "A")}


def test_cv_equals_the_class_of_the_library(run, files, problems, tmp_path):
    model = tmp_path / "best.safetensors"
    outcome = run("cv", files["two classes"], "--Cs", "0.01,1", "--json", "--output", model)
    search = maxmargin.LinearSVCCV([0.01, 1.0], cv=5, loss="hinge").fit(
        problems["X"], problems["two classes"]
    )
    assert outcome.code == 0
    assert outcome.json["best_C"] == search.best_params_["C"]
    found = [row["mean_score"] for row in outcome.json["table"]]
    np.testing.assert_allclose(found, search.cv_results_["mean_test_score"], atol=0.02)
    assert search.best_params_["C"] == maxmargin.load(model).C
    assert "best: C=" in run("cv", files["two classes"], "--Cs", "0.01,1").out


@pytest.mark.parametrize("kind", ["numbers", "queries", "columns"])
def test_cv_of_other_estimators(run, files, kind):
    outcome = run("cv", files[kind], "--Cs", "0.1,1", "--folds", 3, "--json")
    assert outcome.code == 0, outcome
    rows = outcome.json["table"]
    assert [row["C"] for row in rows] == [0.1, 1.0]
    assert all(row["certified"] for row in rows)
    assert outcome.json["best_score"] == max(row["mean_score"] for row in rows)


@pytest.mark.parametrize(
    ("loss", "shown"),
    [("pairs", "pairs in the right order"), ("ndcg", "NDCG"), ("map", "average precision")],
)
def test_figures_of_rankings_have_the_right_names(run, fitted, files, problems, loss, shown):
    data, options = files["queries"], ["--loss", loss]
    if loss == "map":  # two levels
        y, qid = problems["queries"]
        data = data.with_name("two_levels.svm")
        lines = files["queries"].read_text().splitlines()
        data.write_text("\n".join(f"{int(line[0] > '2')}{line[1:]}" for line in lines) + "\n")
    assert f", {shown} 0." in run("cv", data, "--Cs", "0.1", "--folds", 3, *options).out
    if loss != "map":
        y, qid = problems["queries"]
        model = fitted("queries", "--C", 0.1, *options)
        scores = maxmargin.load(model).predict(problems["X"])
        pairs = [
            [float(scores[i] > scores[j]) for i in rows for j in rows if y[i] > y[j]]
            for rows in (np.flatnonzero(qid == q) for q in np.unique(qid))
        ]
        found = run("evaluate", model, data, "--json").json["pairs in the right order"]
        assert found == pytest.approx(np.mean([np.mean(p) for p in pairs if p]))


def test_cv_keeps_queries_together(problems):
    from maxmargin.command_line.examples import FileExamples
    from maxmargin.command_line.search import splits

    y, groups = problems["queries"]
    samples = FileExamples(problems["X"], y, None, groups)
    for train, test in splits(maxmargin.RankSVM(), samples, 4):
        assert not set(groups[train]) & set(groups[test])


def test_resume_continues_a_fit(run, files, tmp_path):
    checkpoint = tmp_path / "fit.ckpt"
    options = ["--checkpoint", checkpoint, "--tol", 1e-6, "--resume", "--json"]
    first = run("fit", files["several classes"], "--max-iter", 2, *options)
    assert first.code == 3, first
    second = run("fit", files["several classes"], *options)
    assert second.code == 0, second
    assert second.json["n_iter"] > 2
    assert second.json["objective"] <= first.json["objective"]


def test_the_file_holds_the_problem_that_was_solved(run, fitted, files):
    """From the file on disk to the objective, with the reader of scikit-learn."""
    model = maxmargin.load(fitted("two classes", "--C", 0.3, "--loss", "hinge"))
    X, y = load_svmlight_file(str(files["two classes"]))
    value = binary_objective(model.coef_, model.intercept_[0], X, y, 0.3)
    assert value == pytest.approx(model.objective_, rel=1e-9)


def test_options_reach_the_estimator(run, files, tmp_path):
    model = tmp_path / "m.safetensors"
    options = ["--tol", 0.01, "--seconds", 60, "--max-iter", 1000, "--seed", 3, "--n-jobs", 2]
    more = ["--solver", "cutting_plane", "--class-weight", "1:2", "--intercept-scaling", "2"]
    assert run("fit", files["two classes"], "-o", model, *options, *more).code == 0
    svc = maxmargin.load(model)
    assert (svc.tol, svc.max_seconds, svc.max_iter, svc.random_state) == (0.01, 60.0, 1000, 3)
    assert (svc.class_weight, svc.intercept_scaling, svc.n_jobs) == ({1: 2.0}, 2, 2)
    assert type(svc.solver).__name__ == "CuttingPlane"


def test_an_engine_by_name_gives_the_same_model(run, files, tmp_path):
    one, two = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    assert run("fit", files["two classes"], "-o", one).code == 0
    assert (
        run("fit", files["two classes"], "-o", two, "--engine", "threads", "--n-jobs", 2).code == 0
    )
    assert (maxmargin.load(one).coef_ == maxmargin.load(two).coef_).all()


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("20/n", "queries", 20 / 12),
        ("2000/n", "two classes", 2000 / 120),
        ("5/n", "columns", 5 / 40),
    ],
)
def test_c_may_be_divided_by_the_number_of_examples(run, files, text, kind, expected):
    assert run("fit", files[kind], "--C", text, "--json").json["C"] == pytest.approx(expected)


def test_wrong_arguments_are_explained_in_one_line(refused, files, tmp_path):
    data = files["two classes"]
    assert "20/n" in refused("fit", data, "--C", "x")
    assert "LinearSVC, LinearSVR" in refused("fit", data, "--estimator", "SVC")
    assert "--engine is for LinearSVC, LinearSVR, RankSVM" in refused(
        "fit", data, "--estimator", "KernelSVC", "--engine", "ray"
    )
    assert "is for SequenceTagger, KernelSVC" in refused("fit", data, "--gamma", "1")
    assert "unknown argument --gama. Did you mean --gamma?" in refused("fit", data, "--gama", "1")
    assert "Did you mean --scores?" in refused("predict", data, data, "--score")
    assert "auto, cutting_plane" in refused("fit", data, "--solver", "simplex")
    assert "1:2,-1:1" in refused("fit", data, "--class-weight", "heavy")
    assert "--checkpoint" in refused("fit", data, "--resume")
    assert "no folder" in refused("fit", data, "--output", tmp_path / "no" / "model")
    assert "not a model of maxmargin" in refused("predict", data, data)
    assert "at least 2" in refused("cv", data, "--folds", 1)
    assert "holds sequences" in refused("fit", files["columns"], "--estimator", "LinearSVC")
    assert "loss" in refused("fit", data, "--loss", "hing")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.svm", "1 2:inf\n-1 1:2\n", "inf in row 0, column 1"),
        ("x.svm", "1 1:1\n-1 1:nan\n", "nan in row 1, column 0"),
        ("x.svm", "1 1:1\ninf 1:2\n", "the label of row 1 is not finite"),
        ("x.csv", "a,b,y\n1,nan,1\n2,3,-1\n", "nan in row 0, column 1"),
        ("x.csv", "a,b,y\n1,2,1\n2,3,nan\n", "the label of row 1 is not finite"),
    ],
)
def test_numbers_that_are_not_finite_are_not_converted(refused, tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    assert said in refused("convert", tmp_path / name, tmp_path / "out.svm")


def test_a_lack_of_memory_is_explained_in_one_line(refused, tmp_path):
    path = tmp_path / "wide.svm"  # weights of 7 exabytes, which no machine has
    path.write_text("1 900000000000000000:1\n-1 1:2\n")
    assert "or is an index wrong?" in refused("fit", path)


def test_an_error_that_is_ours_has_another_code(run, files, monkeypatch):
    from maxmargin.command_line import models

    monkeypatch.setattr(models, "training", lambda estimator, examples: {}[0])
    outcome = run("fit", files["two classes"])
    assert outcome.code == 1
    assert "an error of maxmargin" in outcome.err


def test_a_model_remembers_how_its_input_was_read(run, files, tmp_path):
    model = tmp_path / "m.safetensors"
    template = tmp_path / "template"
    template.write_text("U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\nB\n")
    assert run("fit", files["columns"], "--template", template, "-o", model).code == 0
    template.unlink()
    notes = read_notes(model)
    assert (notes["format"], notes["fields"]) == ("columns", "w y")
    assert notes["template"].startswith("U00:")
    assert run("evaluate", model, files["columns"], "--json").json["accuracy over tokens"] > 0.95
    other = run("evaluate", model, files["columns"], "--features", "w[0].lower", "--json").json
    assert other["accuracy over tokens"] < 0.95  # features that the model does not know


def test_a_tagger_is_not_told_to_scale_its_features(run, files):
    outcome = run("fit", files["columns"], "--max-iter", 1, "--tol", 1e-9)
    assert outcome.code == 3
    assert "raise --max-iter or --tol)" in outcome.out
    assert "scale" in run("fit", files["numbers"], "--max-iter", 1, "--tol", 1e-9).out
