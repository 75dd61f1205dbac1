"""Small files in every format, and the command in this process."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from maxmargin.command_line import main

#: what fit says before it works if it has no file for the model
NOTICE = "maxmargin fit: the model will not be written; use --output FILE\n"
WORDS = {
    "DET": ["the", "a", "this"],
    "NOUN": ["cat", "dog", "garden", "walking", "Paris"],
    "VERB": ["sees", "walks", "running", "likes"],
}
PATTERNS = [["DET", "NOUN", "VERB", "DET", "NOUN"], ["NOUN", "VERB"], ["DET", "NOUN", "VERB"]]


def svmlight_lines(X, y, qid=None):
    for k, (row, label) in enumerate(zip(X, y, strict=True)):
        pairs = " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row.tolist()) if value)
        yield f"{label:g} " + (f"qid:{qid[k]} " if qid is not None else "") + pairs


@pytest.fixture(scope="session")
def problems():
    """Arrays: X, and labels of two classes (40 of 120 positive), of four, numbers, and queries."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(120, 6)) * (rng.random((120, 6)) < 0.8), 3)
    X[:, 5] += 0.125  # no column is zero at the end of the file
    scores = X @ rng.normal(size=6) + 0.7 * rng.normal(size=120)
    two = np.where(np.argsort(np.argsort(-scores)) < 40, 1, -1)
    four = np.digitize(scores, np.quantile(scores, [0.25, 0.5, 0.75])) + 1
    return {
        "X": X,
        "two classes": two,
        "several classes": four,
        "numbers": np.round(scores, 3),
        "queries": (four, np.repeat(np.arange(1, 13), 10)),
    }


@pytest.fixture(scope="session")
def sentences():
    """Words and labels of 40 sentences."""
    rng = np.random.default_rng(1)
    labels = [PATTERNS[k] for k in rng.integers(0, 3, 40)]
    return [[(str(rng.choice(WORDS[y])), y) for y in sentence] for sentence in labels]


@pytest.fixture(scope="session")
def files(problems, sentences, tmp_path_factory):
    """One file per kind of labels, by its name."""
    folder = tmp_path_factory.mktemp("files")
    X = problems["X"]
    out = {}
    for kind in ("two classes", "several classes", "numbers"):
        out[kind] = folder / f"{kind.replace(' ', '_')}.svm"
        out[kind].write_text("\n".join(svmlight_lines(X, problems[kind])) + "\n")
    y, qid = problems["queries"]
    out["queries"] = out["sequences"] = folder / "queries.svm"
    out["queries"].write_text("\n".join(svmlight_lines(X, y, qid)) + "\n")
    blocks = ["\n".join(f"{word} {label}" for word, label in s) for s in sentences]
    out["columns"] = folder / "words.conll"
    out["columns"].write_text("\n\n".join(blocks) + "\n")
    blocks = ["\n".join(f"{y}\tw={w}\tend={w[-2:]}" for w, y in s) for s in sentences]
    out["names"] = folder / "words.crfsuite"
    out["names"].write_text("\n\n".join(blocks) + "\n")
    return out


class Outcome:
    """What a command printed, and its exit code."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit code {self.code}\n{self.out}\n{self.err}"


@pytest.fixture
def run(capsys):
    """Run the command in this process."""

    def call(*arguments):
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as ended:  # argparse
            code = ended.code
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def refused(run):
    """Run the command, and return the one line that says what is wrong."""

    def call(*arguments):
        outcome = run(*arguments)
        assert outcome.code == 2, outcome
        lines = outcome.err.removeprefix(NOTICE).strip().splitlines()
        assert len(lines) == 1, outcome
        assert re.match(r"maxmargin \w+: \S", lines[0])
        assert outcome.out == ""
        return lines[0]

    return call
