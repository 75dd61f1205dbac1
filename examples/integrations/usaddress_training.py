"""
Training an address parser: usaddress
=====================================

usaddress splits addresses into labeled parts with a conditional random field on nested dicts of features,
which :class:`maxmargin.SequenceTagger` takes as they are. This script compares both on other addresses. It
generates them; ``--training training/labeled.xml``, from usaddress's repository, uses real ones.

``pip install maxmargin usaddress``
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from maxmargin import SequenceTagger

try:
    import pycrfsuite
    import usaddress
except ImportError:
    print("This example needs usaddress: pip install usaddress")
    sys.exit(77)

parser = argparse.ArgumentParser()
parser.add_argument("--training", type=Path, help="an XML file of usaddress")
options = parser.parse_args()

# %%
# An element of the file is an address, its children are labeled tokens:


def read(text: str) -> tuple[list[list[str]], list[list[str]]]:
    """Tokens and labels of each address."""
    addresses = [list(address) for address in ElementTree.fromstring(text)]
    tokens = [[token.text.strip() for token in address] for address in addresses]
    return tokens, [[token.tag for token in address] for address in addresses]


def generated(n: int, seed: int) -> str:
    """Addresses that a small grammar produces, as XML."""
    rng = np.random.default_rng(seed)
    streets = ["Oak", "Main", "Lake", "Hill", "Park", "Cedar", "Washington", "Maple", "Spring"]
    places = ["Springfield", "Franklin", "Salem", "Georgetown", "Madison", "Lake", "Hill", "Oak"]
    kinds = ["St", "St.", "Street", "Ave", "Avenue", "Rd", "Blvd", "Park", "Hill", "Court"]
    out = []
    for _ in range(n):
        tokens = [("AddressNumber", str(rng.integers(1, 9999)))]
        if rng.random() < 0.3:
            tokens.append(("StreetNamePreDirectional", rng.choice(["N", "S.", "West", "E"])))
        tokens += [("StreetName", s) for s in rng.choice(streets, rng.integers(1, 3))]
        if rng.random() < 0.8:
            tokens.append(("StreetNamePostType", rng.choice(kinds)))
        if rng.random() < 0.3:
            tokens.append(("OccupancyType", rng.choice(["Apt", "Suite", "Unit"])))
            tokens.append(("OccupancyIdentifier", str(rng.integers(1, 400))))
        tokens += [("PlaceName", p) for p in rng.choice(places, rng.integers(1, 3))]
        if rng.random() < 0.5:
            tokens[-1] = (tokens[-1][0], tokens[-1][1] + ",")
        tokens.append(("StateName", rng.choice(["IL", "OH", "Maine", "OR"])))
        if rng.random() < 0.7:
            tokens.append(("ZipCode", str(rng.integers(10000, 99999))))
        parts = " ".join(f"<{label}>{token}</{label}>" for label, token in tokens)
        out.append(f"<AddressString>{parts}</AddressString>")
    return f"<AddressCollection>{''.join(out)}</AddressCollection>"


tokens, labels = read(options.training.read_text() if options.training else generated(1200, seed=0))
order = np.random.default_rng(0).permutation(len(tokens))
tokens, labels = [tokens[i] for i in order], [labels[i] for i in order]
n_train = int(0.8 * len(tokens))
test_labels = labels[n_train:]
features = [usaddress.tokens2features(address) for address in tokens]
X, X_test, labels = features[:n_train], features[n_train:], labels[:n_train]
print(f"{len(X)} addresses, {sum(map(len, X))} tokens; test: {len(X_test)} addresses")


def report(name: str, predicted: list[list[str]], seconds: float) -> float:
    """Print the accuracy of tokens and of whole addresses."""
    right = [a == b for a, b in zip(predicted, test_labels, strict=True)]
    flat = [np.concatenate(parts) for parts in (predicted, test_labels)]
    accuracy = float(np.mean(flat[0] == flat[1]))
    print(f"{name:24s} tokens {accuracy:.4f}  addresses {np.mean(right):.4f}  {seconds:5.1f} CPU s")
    return accuracy


# %%
# A conditional random field, by L-BFGS:

begin = time.process_time()
trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.01})
for x, tags in zip(X, labels, strict=True):
    trainer.append(pycrfsuite.ItemSequence(x), tags)
with tempfile.TemporaryDirectory() as folder:
    trainer.train(f"{folder}/model")
    seconds = time.process_time() - begin
    crf = pycrfsuite.Tagger()
    crf.open(f"{folder}/model")
    theirs = report("python-crfsuite, L-BFGS", [crf.tag(x) for x in X_test], seconds)
    crf.close()

# %%
# The tagger:

SequenceTagger(C=1.0).fit(X[:20], labels[:20])  # load the compiled functions
begin = time.process_time()
tagger = SequenceTagger().fit(X, labels)
ours = report("SequenceTagger", tagger.predict(X_test), time.process_time() - begin)
assert tagger.converged_
assert ours > theirs - 0.01
assert "previous:word:oak" in tagger.vectorizer_.vocabulary_ or options.training
print(
    f"nested features as they are; accuracy of tokens {ours:.4f} ({theirs:.4f} by crfsuite), certified gap "
    f"{tagger.gap_:.1e}"
)
