"""One sentence at a time: a tagger beside python-crfsuite's.

    python -m benchmarks.one_sentence

Both are trained on 1,500 sentences of CoNLL-2000 with the same features (lists of strings), and then label
300 test sentences, one call each, and all of them in one call. CPU time of one thread; for each sentence the
best of several turns, which alternate between the two, so that neither finds its model in the caches.
"""

from __future__ import annotations

from benchmarks.common import HERE, Row, machine, markdown

# ruff: isort: split
import datetime
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasets
from maxmargin import SequenceTagger

TURNS = 9


def microseconds(calls: Sequence[Callable[[Any], Any]], X: Sequence[Any]) -> list[float]:
    """The mean over X of the best time of each call."""
    best = np.full((len(calls), len(X)), np.inf)
    for _ in range(TURNS):
        for i, x in enumerate(X):
            for k, call in enumerate(calls):
                begin = time.thread_time_ns()
                call(x)
                best[k, i] = min(best[k, i], time.thread_time_ns() - begin)
    return (best.mean(axis=1) / 1e3).tolist()


def main() -> None:
    """Train both and write the table."""
    import pycrfsuite

    train, test = datasets.conll2000("train")[:1500], datasets.conll2000("test")[:300]
    X = [datasets.token_features(sentence) for sentence in train]
    X_test = [datasets.token_features(sentence) for sentence in test]
    y = [[token[-1] for token in sentence] for sentence in train]
    hinge = SequenceTagger(C=0.1, tol=1e-1).fit(X, y)
    logistic = SequenceTagger(C=0.1, tol=1e-1, loss="logistic").fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "crfsuite"))
        trainer = pycrfsuite.Trainer(verbose=False, algorithm="ap")
        for tokens, labels in zip(X, y, strict=True):
            trainer.append(tokens, labels)
        trainer.set_params({"max_iterations": 10})
        trainer.train(path)
        crfsuite = pycrfsuite.Tagger()
        crfsuite.open(path)

        def marginals(tokens: Any) -> Any:
            crfsuite.set(tokens)
            return [
                [crfsuite.marginal(label, t) for label in crfsuite.labels()]
                for t in range(len(tokens))
            ]

        ours, theirs = microseconds([lambda x: hinge.predict([x]), crfsuite.tag], X_test)
        rows: list[Row] = [{"call": "labels, one sentence", "ours": ours, "crfsuite": theirs}]
        ours, theirs = microseconds([lambda x: logistic.predict_marginals([x]), marginals], X_test)
        rows.append({"call": "marginals, one sentence", "ours": ours, "crfsuite": theirs})
        ours, theirs = microseconds(
            [hinge.predict, lambda all_: [crfsuite.tag(x) for x in all_]], [X_test]
        )
        n = len(X_test)
        rows.append({"call": f"labels, {n} sentences", "ours": ours / n, "crfsuite": theirs / n})
    for row in rows:
        row["speed"] = row["crfsuite"] / row["ours"]
        for name in ("ours", "crfsuite"):
            row[name] = round(row[name], 1)
        row["speed"] = round(row["speed"], 2)
    tokens = sum(map(len, X_test)) / len(X_test)
    text = (
        "# One sentence at a time, beside python-crfsuite\n\nCPU microseconds per sentence of "
        f"{tokens:.0f} tokens with about {np.mean([len(t) for x in X_test for t in x]):.0f} features each; "
        "speed above 1: we are faster.\n\n"
        + "\n".join(markdown(rows))
        + f"\n\n{datetime.date.today().isoformat()}, {machine()}\n"
    )
    (HERE / "results" / "one_sentence.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
