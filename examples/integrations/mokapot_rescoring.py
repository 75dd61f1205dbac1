"""
Rescoring peptides with mokapot
===============================

mokapot searches for the class weights of a linear SVM once, and then trains it ten times on labels that it
updates. This script compares its own search, ``GridSearchCV`` over scikit-learn's ``LinearSVC``, with
:class:`maxmargin.LinearSVCCV` on generated peptide-spectrum matches (PSMs).

``pip install maxmargin mokapot``
"""

import argparse
import sys
import time

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from maxmargin import LinearSVC, LinearSVCCV

try:
    import mokapot
    from mokapot.model import PERC_GRID
except ImportError:
    print("This example needs mokapot: pip install mokapot")
    sys.exit(77)

parser = argparse.ArgumentParser()
parser.add_argument("--psms", type=int, default=20_000, help="number of generated PSMs")
parser.add_argument("--every-iteration", action="store_true", help="also search in every iteration")
options = parser.parse_args()
n_psms = options.psms

# %%
# Half of the PSMs are decoys. 40 % of the targets are correct, and only those have higher scores. Of 20
# features, eight carry a part of the information; one of them has outliers, as real scores do.

rng = np.random.default_rng(0)
target = rng.random(n_psms) < 0.5
correct = target & (rng.random(n_psms) < 0.4)
X = rng.normal(size=(n_psms, 20))
X[:, :8] += np.linspace(2.5, 0.5, 8) * correct[:, None]
X[:, 1] += rng.standard_t(2, n_psms)
names = [f"feature{j}" for j in range(X.shape[1])]
table = pd.DataFrame(X, columns=names).assign(
    spectrum=np.arange(n_psms),
    peptide=[f"PEPTIDE{i}K" for i in range(n_psms)],
    target=target,
)


# %%
# mokapot recognizes ``LinearSVCCV`` as a search. The class below counts the searches.


class CountedSearch(LinearSVCCV):
    """LinearSVCCV that counts its fits."""

    n_searches = 0

    def fit(self, X, y=None, sample_weight=None, groups=None):
        """Count, and fit."""
        CountedSearch.n_searches += 1
        return super().fit(X, y, sample_weight, groups)


search = CountedSearch(
    Cs=[1.0],
    class_weights=PERC_GRID["class_weight"],
    cv=KFold(3, shuffle=True, random_state=1),
    loss="squared_hinge",
    refit=False,
)
LinearSVC(loss="squared_hinge").fit(X[:100], target[:100])  # load the compiled functions
CountedSearch(**search.get_params()).fit(X[:300], target[:300])
CountedSearch.n_searches = 0

# %%
# The third model is what mokapot does with an estimator that it does not recognize: it searches in every
# iteration.

models = {
    "GridSearchCV": mokapot.PercolatorModel(n_jobs=1, rng=1),
    "LinearSVCCV": mokapot.Model(search, rng=1),
}
if options.every_iteration:
    models["LinearSVCCV, search in every iteration"] = mokapot.Model(
        LinearSVCCV(**search.get_params()).set_params(refit=True), rng=1
    )
    models["LinearSVCCV, search in every iteration"]._needs_cv = False
accepted, seconds = {}, {}
print(f"{n_psms} PSMs, {correct.sum()} of them correct")
print(f"{'model':38s} {'accepted':>8s} {'wrong':>6s} {'CPU s':>6s}")
for name, model in models.items():
    psms = mokapot.LinearPsmDataset(
        table,
        "target",
        spectrum_columns="spectrum",
        peptide_column="peptide",
        feature_columns=names,
    )
    begin = time.process_time()
    confidence, fitted = mokapot.brew(psms, model, test_fdr=0.01, rng=1)
    seconds[name] = time.process_time() - begin
    found = confidence.psms
    found = found.loc[found["mokapot q-value"] <= 0.01, "spectrum"].to_numpy()
    accepted[name] = len(found)
    wrong = float(np.mean(~correct[found]))
    assert wrong < 0.02
    print(f"{name:38s} {len(found):8d} {wrong:6.2%} {seconds[name]:6.1f}")
    if name == "LinearSVCCV":
        assert all(isinstance(m.estimator, LinearSVC) and m.estimator.converged_ for m in fitted)

assert CountedSearch.n_searches == 3, "one search for each of the three folds of mokapot"
more = accepted["LinearSVCCV"] / accepted["GridSearchCV"] - 1
assert abs(more) < 0.02
print(
    f"one search per fold; {more:+.2%} PSMs accepted at 1 % FDR, "
    f"{seconds['LinearSVCCV'] / seconds['GridSearchCV']:.2f} of the CPU time of GridSearchCV"
)
