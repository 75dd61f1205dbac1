"""
Training from Hugging Face datasets
===================================

A ``datasets.Dataset`` holds columns in Arrow files. This script trains a :class:`maxmargin.SequenceTagger`
from columns of tokens and tags, as token-classification datasets have them, and a
:class:`maxmargin.LinearSVC` batch by batch from a stream (``IterableDataset``), with a bound at the end.
Nothing is downloaded: the datasets are generated.

``pip install maxmargin datasets``
"""

import os
import sys

import numpy as np

from maxmargin import LinearSVC, SequenceTagger

os.environ["HF_HUB_OFFLINE"] = "1"
try:
    import datasets
except ImportError:
    print("This example needs datasets: pip install datasets")
    sys.exit(77)

datasets.disable_progress_bars()
rng = np.random.default_rng(0)

# %%
# Tokens and tags: ``ClassLabel`` stores numbers, and its names are the labels.

names = ["O", "B-PER", "I-PER", "B-LOC"]
patterns = [
    (["Anna", "Smith", "lives", "in", "Paris"], [1, 2, 0, 0, 3]),
    (["Yesterday", "John", "left", "Berlin"], [0, 1, 0, 3]),
    (["In", "Rome", "it", "rains"], [0, 3, 0, 0]),
]
chosen = [patterns[i] for i in rng.integers(0, len(patterns), 120)]
tagged = datasets.Dataset.from_dict(
    {"tokens": [tokens for tokens, _ in chosen], "ner_tags": [tags for _, tags in chosen]},
    features=datasets.Features(
        tokens=datasets.List(datasets.Value("string")),
        ner_tags=datasets.List(datasets.ClassLabel(names=names)),
    ),
).train_test_split(0.25, seed=0)


def features(example):
    """Features of each token: the word, its shape, and the word before."""
    tokens = example["tokens"]
    return [
        {"word": word.lower(), "title": word.istitle(), "before": (["<s>", *tokens])[t].lower()}
        for t, word in enumerate(tokens)
    ]


def inputs_and_labels(part):
    """What the tagger takes: a list of tokens and a list of labels for each example."""
    to_names = part.features["ner_tags"].feature.int2str
    return [features(example) for example in part], [to_names(tags) for tags in part["ner_tags"]]


X, y = inputs_and_labels(tagged["train"])
X_test, y_test = inputs_and_labels(tagged["test"])
tagger = SequenceTagger(C=1.0).fit(X, y)
assert tagger.predict(X_test) == y_test
print(f"tagger: {len(X)} examples, certified gap {tagger.gap_:.1e}")

# %%
# A stream of samples, which need not fit into memory: ``partial_fit`` takes one batch after the other.


def samples(n):
    """Samples of a noisy linear problem."""
    generator = np.random.default_rng(1)
    for _ in range(n):
        x = generator.normal(size=8)
        yield {"x": x, "y": int(x[0] - x[1] + 0.3 * generator.normal() > 0)}


stream = datasets.IterableDataset.from_generator(samples, gen_kwargs={"n": 4000}).with_format(
    "numpy"
)
svc = LinearSVC(C=1.0, loss="hinge")
whole = []
for batch in stream.iter(batch_size=500):
    svc.partial_fit(np.asarray(batch["x"]), batch["y"], classes=[0, 1])
    whole.append(batch)
X_all = np.concatenate([np.asarray(batch["x"]) for batch in whole])
y_all = np.concatenate([batch["y"] for batch in whole])
accuracy = svc.score(X_all, y_all)
reference = LinearSVC(C=1.0, loss="hinge").fit(X_all, y_all).score(X_all, y_all)
assert accuracy > reference - 0.01
print(
    f"a tagger from token columns; a stream of {len(X_all)} samples in {len(whole)} batches: accuracy "
    f"{accuracy:.3f} ({reference:.3f} with all samples at once)"
)
