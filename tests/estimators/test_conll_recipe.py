"""From a file of columns to the F1 of spans, in Python as on the command line."""

import gzip

import pytest

from maxmargin import SequenceTagger
from maxmargin.command_line import main
from maxmargin.data import read_conll
from maxmargin.metrics import span_f1_score, span_scores, spans

SENTENCE = "Ada NNP B-PER\nLovelace NNP I-PER\nmet VBD O\n\n"
OTHER = "In IN O\nLondon NNP B-LOC\n"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "train.conll"
    path.write_text((SENTENCE + OTHER + "\n") * 5)
    return path


def test_templates_make_the_features(path):
    X, y = read_conll(path, fields=["w", "pos", "y"], templates=["w[-1]|w[0]", "pos[1]"])
    assert len(X) == len(y) == 10
    assert X[0] == [
        ["pos[1]=NNP"],
        ["w[-1]|w[0]=Ada|Lovelace", "pos[1]=VBD"],
        ["w[-1]|w[0]=Lovelace|met"],
    ]
    assert y[1] == ["O", "B-LOC"]


def test_templates_may_be_those_of_crfpp(path):
    X, _ = read_conll(path, templates="U00:%x[0,0]\nU01:%x[-1,1]\nB\n")
    assert X[0][0] == ["U00:Ada", "U01:_B-1"]


def test_a_file_without_labels(tmp_path, path):
    bare = tmp_path / "test.conll.gz"
    lines = [" ".join(line.split()[:2]) for line in path.read_text().splitlines()]
    bare.write_bytes(gzip.compress("\n".join(lines).encode()))
    X, y = read_conll(bare, fields="w pos y")
    assert y is None
    assert read_conll(path, fields="w pos y")[0] == X


def test_conllu_by_the_name_of_the_file(tmp_path):
    path = tmp_path / "en.conllu"
    word = "{}\t{}\t_\t{}\t{}\t_\t0\t_\t_\t_\n"
    rows = [word.format(1, "cats", "NOUN", "NNS"), word.format("2-3", "don't", "_", "_")]
    path.write_text("# text = cats\n" + "".join(rows) + word.format(2, "do", "AUX", "VBP") + "\n")
    assert read_conll(path, templates="form[0]") == (
        [[["form[0]=cats"], ["form[0]=do"]]],
        [["NOUN", "AUX"]],
    )
    assert read_conll(path, label="xpos")[1] == [["NNS", "VBP"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "tag"}, "label tag: .* has the columns w, c1, y; fields names them"),
        ({"fields": "w y"}, "3 columns, but 2 are named: w, y"),
        ({"templates": "v[0]"}, "no column 'v'; the columns are w, c1, y"),
        ({"templates": "y[0]"}, "the label that is to be predicted"),
    ],
)
def test_wrong_options_are_explained(path, options, message):
    with pytest.raises(ValueError, match=message):
        read_conll(path, **options)


def test_python_and_the_command_agree(path, tmp_path, capsys):
    tagger = SequenceTagger(C=0.1).fit(*read_conll(path))
    model, new = tmp_path / "m.safetensors", tmp_path / "new.conll"
    new.write_text(
        SENTENCE + "Ada NNP B-LOC\nmet VBD O\n"
    )  # a label that training did not see here
    assert main(["fit", str(path), "--C", "0.1", "-o", str(model), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(model), str(new)]) == 0
    scores = capsys.readouterr().out.split("\n\n")[0]  # the confusion matrix follows
    shown = dict(line.rsplit(None, 1) for line in scores.splitlines())
    X, y = read_conll(new)
    found = span_scores(y, tagger.predict(X))
    assert 0.0 < found.f1 < 1.0
    for name, value in zip(("precision", "recall", "F1"), found, strict=True):
        assert float(shown[f"{name} of spans"]) == pytest.approx(value, abs=1e-4)


def test_only_whole_spans_count():
    truth = [["B-A", "I-A", "O", "B-B"], ["O"]]
    assert span_scores(truth, [["B-A", "I-A", "O", "B-B"], ["O"]]) == (1.0, 1.0, 1.0)
    assert span_scores(truth, [["B-A", "O", "O", "B-B"], ["O"]]) == (0.5, 0.5, 0.5)
    assert span_scores(truth, [["B-A", "I-A", "O", "B-A"], ["B-B"]]).precision == pytest.approx(
        1 / 3
    )
    assert span_scores(truth, [["O"] * 4, ["O"]]) == (0.0, 0.0, 0.0)
    assert span_scores([["O"]], [["O"]]).f1 == 0.0


def test_schemes_of_labels_give_the_same_spans():
    bio = ["B-A", "I-A", "I-A", "O", "B-B", "B-B", "I-B"]
    iobes = ["B-A", "I-A", "E-A", "O", "S-B", "B-B", "E-B"]
    bilou = ["B-A", "I-A", "L-A", "O", "U-B", "B-B", "L-B"]
    assert spans(bio) == spans(iobes) == spans(bilou) == {(0, 3, "A"), (4, 5, "B"), (5, 7, "B")}


def test_sequences_must_have_the_same_lengths():
    with pytest.raises(ValueError, match="3 true labels, but 2 predicted"):
        span_f1_score([["O"] * 3], [["O"] * 2])
    with pytest.raises(ValueError, match="zip"):
        span_f1_score([["O"]], [])
