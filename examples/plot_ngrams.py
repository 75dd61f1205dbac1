"""
Text classification without a feature matrix
============================================

Which library does a paragraph of documentation come from? Words and pairs of words are hashed to columns in
every product. Only the tokens are stored, four bytes each.
"""

# %%
# Paragraphs
# ----------
# The documentation of NumPy, SciPy, and scikit-learn is installed with them. The names of the libraries are
# removed, because they would give the answer away.

import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC
from maxmargin.data import HashedNgrams

MODULES = {
    "numpy": ["numpy", "numpy.linalg", "numpy.random", "numpy.fft", "numpy.polynomial"],
    "scipy": ["scipy.stats", "scipy.optimize", "scipy.signal", "scipy.sparse", "scipy.ndimage"],
    "sklearn": ["sklearn.metrics", "sklearn.linear_model", "sklearn.svm", "sklearn.decomposition"],
}
documents, labels = [], []
for library, names in MODULES.items():
    found = set()
    for name in names:
        module = importlib.import_module(name)
        for member in dir(module):
            text = inspect.getdoc(getattr(module, member)) if member[0] != "_" else None
            found.update(p for p in (text or "").split("\n\n") if 80 < len(p) < 800)
    cleaned = [re.sub(r"(?i)\b(numpy|scipy|scikit|sklearn|np|sp)\b", " ", p) for p in sorted(found)]
    cleaned = cleaned[:: max(1, len(cleaned) // 600)]
    documents += cleaned
    labels += [library] * len(cleaned)
order = np.random.default_rng(0).permutation(len(documents))
documents, y = [documents[i] for i in order], np.array(labels)[order]
half = len(documents) // 2
print({library: int(np.sum(y == library)) for library in MODULES})

# %%
# Words, pairs of words, characters
# ---------------------------------
# Half of the n-grams, those with a minus sign, count negatively. For these, a negative weight is evidence
# for the library.

kinds = {
    "words": {"ngram_range": (1, 1)},
    "words and pairs": {"ngram_range": (1, 2)},
    "2 to 5 characters": {"analyzer": "char", "ngram_range": (2, 5)},
}
accuracy, kept, explicit = {}, {}, {}
for name, options in kinds.items():
    X = HashedNgrams(documents[:half], n_features=2**16, **options)
    svc = LinearSVC(C=1.0, tol=1e-2, class_weight="balanced").fit(X, y[:half])
    accuracy[name] = svc.score(X.like(documents[half:]), y[half:])
    kept[name], explicit[name] = X.tokens.nbytes / 1e6, X.nnz * 12 / 1e6
    print(f"{name}: accuracy {accuracy[name]:.3f}, gap {svc.gap_:.1e}")
    if name == "words and pairs":
        for j, library in enumerate(svc.classes_):
            best = np.argsort(-np.abs(svc.coef_[j]))[:5]
            words = [f"{svc.coef_[j][i]:+.2f} {X.describe(i).split(', ')[0]}" for i in best]
            print(f"    {library}: {', '.join(words)}")

# %%
# Memory use
# ----------
# The design stores the tokens, however many n-grams are formed from them. A CSR matrix would need 12 bytes
# per n-gram.

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
place = np.arange(len(kinds))
axes.barh(place + 0.2, list(explicit.values()), 0.4, color="0.8", label="a CSR matrix")
axes.barh(place - 0.2, list(kept.values()), 0.4, color="C0", label="hashed tokens")
labels = [f"{name}\naccuracy {accuracy[name]:.2f}" for name in kinds]
axes.set_yticks(place, labels)
axes.invert_yaxis()
axes.set(xlabel="megabytes")
axes.legend()
