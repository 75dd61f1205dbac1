"""
Training quantifiers for QuaPy
==============================

QuaPy's explicit loss minimization trains a classifier for a quantification error through a patched SVM-perf
that you have to compile. :class:`maxmargin.MeasureSVC` replaces it. The dataset is QuaPy's ``wdbc``, which
scikit-learn ships.

``pip install maxmargin quapy``
"""

import sys

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC, MeasureSVC
from maxmargin.losses import QuantificationLoss

try:
    import quapy as qp
    from quapy.method.aggregative import ACC, CC
    from quapy.model_selection import GridSearchQ
    from quapy.protocol import APP
except ImportError:
    print("This example needs QuaPy: pip install quapy")
    sys.exit(77)

# %%
# The class to count is malignant tumors. Half of the samples are for training. Using only four features
# makes the task harder.

X, y = load_breast_cancer(return_X_y=True)
y = 1 - y
X = StandardScaler().fit_transform(X)[:, [0, 1, 4, 8]]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
training = qp.data.LabelledCollection(X_train, y_train)
test = qp.data.LabelledCollection(X_test, y_test)
qp.environ["SAMPLE_SIZE"] = 100

# %%
# The losses are those of QuaPy: for every confusion matrix of 100 samples, our loss equals QuaPy's error,
# with the same smoothing.

names = {"ae": qp.error.ae, "nae": qp.error.nae, "rae": qp.error.rae}
names |= {"kld": qp.error.kld, "nkld": qp.error.nkld}
for name, theirs in names.items():
    ours = QuantificationLoss(name)
    eps = {} if name in ("ae", "nae") else {"eps": 1 / 200}
    worst = max(
        abs(
            float(ours.loss(P - fn, fp, fn, 100 - P - fp))
            - float(theirs(np.array([1 - P / 100, P / 100]), np.array([1 - q, q]), **eps))
        )
        for P in (1, 20, 50, 90)
        for fn in range(0, P + 1, 3)
        for fp in range(0, 101 - P, 3)
        for q in [(P - fn + fp) / 100]
    )
    print(f"{name:5s} largest difference from quapy.error: {worst:.1e}")
    assert worst < 1e-9

# %%
# QuaPy's own search chooses *C* for each quantifier, by the mean absolute error on a third of the training
# samples. Then 1,050 sets of 100 test samples are drawn with all prevalences from 0 to 1 (QuaPy's
# artificial prevalence protocol) and counted.

fit_part, validation = training.split_stratified(2 / 3, random_state=0)
quantifiers = {
    "CC, LinearSVC": CC(LinearSVC(loss="hinge")),
    "CC, MeasureSVC('ae')": CC(MeasureSVC("ae")),
    "CC, MeasureSVC('kld')": CC(MeasureSVC("kld")),
    "CC, MeasureSVC('nkld')": CC(MeasureSVC("nkld")),
    "CC, MeasureSVC('q')": CC(MeasureSVC("q")),
    "ACC, LinearSVC": ACC(LinearSVC(loss="hinge")),
    "ACC, MeasureSVC('ae')": ACC(MeasureSVC("ae")),
}
mean_error = {}
print(f"{'quantifier':24s} {'C':>6s} {'MAE':>7s} {'MRAE':>7s} {'MKLD':>7s}")
for name, quantifier in quantifiers.items():
    search = GridSearchQ(
        quantifier,
        {"classifier__C": [0.01, 0.1, 1.0, 10.0]},
        protocol=APP(validation, n_prevalences=21, repeats=10, random_state=0),
        error="mae",
        refit=False,
    ).fit(*fit_part.Xy)
    quantifier.set_params(**search.best_params_)
    quantifier.fit(*training.Xy)
    protocol = APP(test, n_prevalences=21, repeats=50, random_state=1)
    true, estimated = qp.evaluation.prediction(quantifier, protocol)
    errors = [getattr(qp.error, kind)(true, estimated) for kind in ("mae", "mrae", "mkld")]
    C = search.best_params_["classifier__C"]
    print(f"{name:24s} {C:6g} " + " ".join(f"{error:7.4f}" for error in errors))
    mean_error[name] = errors[0]

counted, trained = mean_error["CC, LinearSVC"], mean_error["CC, MeasureSVC('ae')"]
assert trained < counted
print(
    f"losses equal QuaPy's; mean absolute error of classify and count {trained:.4f} with MeasureSVC('ae'), "
    f"{counted:.4f} with LinearSVC"
)
