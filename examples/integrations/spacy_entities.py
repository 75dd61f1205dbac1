"""
A component for spaCy
=====================

spaCy tokenizes, and a :class:`maxmargin.SequenceTagger` labels the tokens. A component of a few lines writes
its labels to ``doc.ents``, so that the rest of a spaCy program does not notice the difference. This script
trains it on recipes that are generated from templates, in spaCy's own format (``Doc`` with ``ents``).

``pip install maxmargin spacy``
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import maxmargin
from maxmargin import SequenceTagger

try:
    import spacy
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import biluo_tags_to_spans, offsets_to_biluo_tags
except ImportError:
    print("This example needs spaCy: pip install spacy")
    sys.exit(77)

# %%
# Features of a token: lexical attributes that spaCy computes without a trained model.


def features(doc: Doc) -> list[dict]:
    """A dict for each token, with the words around it."""
    rows = [
        {"lower": t.lower_, "shape": t.shape_, "suffix": t.suffix_, "number": t.like_num}
        for t in doc
    ]
    for t, row in enumerate(rows):
        row["before"] = doc[t - 1].lower_ if t else "<s>"
        row["after"] = doc[t + 1].lower_ if t + 1 < len(doc) else "</s>"
    return rows


# %%
# The component. ``forbidden_transitions="unseen"`` keeps it from labelings that are no valid BILUO tags.


@Language.factory("maxmargin_ner")
class MaxMarginNER:
    """Sets ``doc.ents`` from the labels of a tagger in a model file."""

    def __init__(self, nlp: Language, name: str, path: str) -> None:
        self.tagger = maxmargin.load(path, expected=SequenceTagger)

    def __call__(self, doc: Doc) -> Doc:
        doc.ents = biluo_tags_to_spans(doc, self.tagger.predict([features(doc)])[0])
        return doc


# %%
# Training data: texts with the offsets of entities, as spaCy's examples have them.


def recipes(n: int, seed: int) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """Texts and entities."""
    rng = np.random.default_rng(seed)
    foods = ["flour", "brown sugar", "olive oil", "sea salt", "butter", "fresh basil", "rice"]
    units = ["cups", "grams", "tablespoons", "teaspoons", "ounces"]
    out = []
    for _ in range(n):
        text, entities = "", []
        start, middle = [("Add ", " of "), ("Stir in ", " "), ("Melt ", " of ")][rng.integers(3)]
        pieces = [(start, None), (f"{rng.integers(1, 500)} {rng.choice(units)}", "QUANTITY")]
        pieces += [(middle, None), (str(rng.choice(foods)), "FOOD"), (" and ", None)]
        pieces += [(str(rng.choice(foods)), "FOOD"), (".", None)]
        for piece, label in pieces:
            if label:
                entities.append((len(text), len(text) + len(piece), label))
            text += piece
        out.append((text, entities))
    return out


nlp = spacy.blank("en")
X, y = [], []
for text, entities in recipes(150, seed=0):
    doc = nlp(text)
    X.append(features(doc))
    y.append(offsets_to_biluo_tags(doc, entities))
tagger = SequenceTagger(C=1.0, forbidden_transitions="unseen").fit(X, y)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "recipes.safetensors"
    tagger.save(path)
    nlp.add_pipe("maxmargin_ner", config={"path": str(path)})

right = total = 0
for text, entities in recipes(100, seed=1):
    found = {(e.start_char, e.end_char, e.label_) for e in nlp(text).ents}
    right += len(found & set(entities))
    total += max(len(found), len(entities))
doc = nlp("Add 20 grams of olive oil and rice.")
print([(entity.text, entity.label_) for entity in doc.ents])
assert right / total > 0.98
assert tagger.converged_
print(
    f"component in a pipeline: {right} of {total} entities right, certified gap {tagger.gap_:.1e}"
)
