"""Checks and slow reference answers for people who extend the library.

Use this package if you write your own task, loss, risk or engine, or if you want to verify a certificate. You
do not need it to train and predict.

- The functions ``check_*`` test an object against its contract on a few small examples. Call them in tests.
- The functions ``*_objective`` evaluate F(w) in plain NumPy.
- The functions ``solve_*_qp`` solve small problems to about nine digits by an interior-point method. They
  need the package clarabel, which the ``test`` extra installs.

No code here uses the library's solvers, risks or compiled functions, so an error there cannot hide here.
"""

from maxmargin.testing.checks import (
    check_engine,
    check_kernel_inputs,
    check_latent_task,
    check_loss,
    check_risk,
    check_task,
)
from maxmargin.testing.kernels import kernel_objective, solve_kernel_qp
from maxmargin.testing.latent import latent_objective
from maxmargin.testing.quadratic import (
    solve_binary_qp,
    solve_multiclass_qp,
    solve_regression_qp,
    solve_structured_qp,
)
from maxmargin.testing.reference import (
    binary_objective,
    multiclass_objective,
    regression_objective,
    structured_objective,
)

__all__ = [
    "binary_objective",
    "check_engine",
    "check_kernel_inputs",
    "check_latent_task",
    "check_loss",
    "check_risk",
    "check_task",
    "kernel_objective",
    "latent_objective",
    "multiclass_objective",
    "regression_objective",
    "solve_binary_qp",
    "solve_kernel_qp",
    "solve_multiclass_qp",
    "solve_regression_qp",
    "solve_structured_qp",
    "structured_objective",
]
