"""Checks of user-defined tasks and losses."""

from maxmargin.testing.checks.kernel_inputs import check_kernel_inputs
from maxmargin.testing.checks.latent import check_latent_task
from maxmargin.testing.checks.loss import check_loss
from maxmargin.testing.checks.task import check_task

__all__ = ["check_kernel_inputs", "check_latent_task", "check_loss", "check_task"]
