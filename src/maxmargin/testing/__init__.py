"""Checks and plain reference code for people who write their own task or loss, or who verify a certificate.

You do not need this package to train and predict.

- The functions ``check_*`` test an object against its contract on a few small examples. Call them in tests.
- The functions ``*_objective`` evaluate F(w) in plain NumPy.

No code here uses the library's solvers, risks or compiled functions, so an error there cannot hide here.
"""

from maxmargin.testing.certificate import verify_certificate
from maxmargin.testing.checks import (
    check_kernel_inputs,
    check_latent_task,
    check_loss,
    check_task,
)
from maxmargin.testing.latent import latent_objective
from maxmargin.testing.reference import (
    binary_objective,
    kernel_objective,
    multiclass_objective,
    regression_objective,
    structured_objective,
)

__all__ = [
    "binary_objective",
    "check_kernel_inputs",
    "check_latent_task",
    "check_loss",
    "check_task",
    "kernel_objective",
    "latent_objective",
    "multiclass_objective",
    "regression_objective",
    "structured_objective",
    "verify_certificate",
]
