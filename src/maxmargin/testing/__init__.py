"""Tools to prove a task, a loss, a risk or an engine right, and slow reference answers.

Nothing here uses the library's solvers, risks, losses or compiled code: this is the referee.
"""

from maxmargin.testing.checks import (
    check_engine,
    check_examples,
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
    solve_reduced_qp,
    solve_structured_qp,
)
from maxmargin.testing.reference import (
    binary_objective,
    brute_force_inference,
    brute_force_objective,
    multiclass_objective,
    structured_objective,
)
from maxmargin.testing.regression import regression_objective, solve_regression_qp

__all__ = [
    "binary_objective",
    "brute_force_inference",
    "brute_force_objective",
    "check_engine",
    "check_examples",
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
    "solve_reduced_qp",
    "solve_regression_qp",
    "solve_structured_qp",
    "structured_objective",
]
