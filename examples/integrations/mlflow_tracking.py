"""
Tracking fits with MLflow
=========================

A callback logs the objective, the lower bound and the gap of every iteration as MLflow metrics, and the
certificate of the finished fit as metrics and tags. ``mlflow.sklearn.log_model`` stores the estimator like
any other scikit-learn model.

MLflow's ``autolog`` patches only the estimators of scikit-learn itself, so it does not log ours. The callback
takes its place.

``pip install maxmargin mlflow``
"""

import logging
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC

try:
    import mlflow
except ImportError:
    print("This example needs MLflow: pip install mlflow")
    sys.exit(77)

# %%
# The callback. ``record`` is a :class:`maxmargin.core.IterationRecord`; ``on_end`` is called when all
# attributes of the fit are stored.


class LogToMLflow:
    """Logs iterations and the certificate to the active run."""

    def __call__(self, record):
        values = {name: getattr(record, name) for name in ("objective", "lower_bound", "gap")}
        finite = {name: value for name, value in values.items() if np.isfinite(value)}
        mlflow.log_metrics(finite, step=record.iteration)

    def on_end(self, estimator):
        """Log what the fit guarantees."""
        for name in ("objective_", "lower_bound_", "gap_"):
            if np.isfinite(getattr(estimator, name)):
                mlflow.log_metric(f"certified_{name.rstrip('_')}", getattr(estimator, name))
        mlflow.set_tag("certificate", estimator.certificate_)
        mlflow.set_tag("stop_reason", estimator.stop_reason_)
        mlflow.log_params({"C": estimator.C, "tol": estimator.tol, "loss": estimator.loss})


# %%
# The types that MLflow must trust to load the model with skops are classes of maxmargin and of scikit-learn.

logging.getLogger("mlflow").setLevel(logging.ERROR)
logging.getLogger("alembic").setLevel(logging.ERROR)
X, y = load_breast_cancer(return_X_y=True)
with tempfile.TemporaryDirectory() as folder:
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    experiment = mlflow.create_experiment("maxmargin", artifact_location=Path(folder).as_uri())
    with mlflow.start_run(experiment_id=experiment) as run:
        model = make_pipeline(
            StandardScaler(), LinearSVC(callbacks=[LogToMLflow()], loss="hinge")
        ).fit(X, y)
        mlflow.log_metric("accuracy", model.score(X, y))
        svc = model[-1]
        model[-1].set_params(callbacks=None)  # the callback is not a part of the model
        stored = mlflow.sklearn.log_model(
            model,
            name="model",
            serialization_format="skops",
            skops_trusted_types=["maxmargin.estimators.linear.linear_svc.LinearSVC"],
            pip_requirements=["maxmargin", "skops"],
        )
    loaded = mlflow.sklearn.load_model(stored.model_uri)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))

    client = mlflow.MlflowClient()
    history = client.get_metric_history(run.info.run_id, "gap")
    finished = client.get_run(run.info.run_id).data
    assert finished.metrics["certified_gap"] == svc.gap_ <= svc.tol
    assert finished.metrics["certified_lower_bound"] == svc.lower_bound_
    assert finished.tags["certificate"] == "exact"
    assert [point.step for point in history] == sorted(point.step for point in history)
    print(
        f"{len(history)} gaps logged, certified gap {svc.gap_:.0e}; the stored model gives bit-identical "
        "scores"
    )
