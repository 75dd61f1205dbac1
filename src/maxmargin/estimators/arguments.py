"""Types of the arguments that estimators share, for type checkers and editors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.checkpoints import Checkpoint
from maxmargin.core.engine import Engine
from maxmargin.core.result import IterationRecord
from maxmargin.core.stopping import StoppingRule
from maxmargin.solvers.base import Solver


class HasShape(Protocol):
    """A sparse matrix, a data frame, matrix-free features, or a data set on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""


#: samples
Samples: TypeAlias = npt.ArrayLike | HasShape
#: labels or targets; None for a data set, which contains its own
Labels: TypeAlias = npt.ArrayLike | Sequence[Hashable] | None
#: one number per sample
Numbers: TypeAlias = npt.ArrayLike | None
#: a relative gap, or a rule such as :class:`maxmargin.solvers.AbsoluteGap`
Tolerance: TypeAlias = float | StoppingRule
Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None
Callbacks: TypeAlias = Sequence[Callable[[IterationRecord], object]] | None
Method: TypeAlias = Literal["auto"] | Solver
#: what the workers are: one of these, an address "ray://host:port", or an engine
Workers: TypeAlias = Literal["threads", "processes", "ray"] | str | Engine | None
File: TypeAlias = str | PathLike[str]
Resumable: TypeAlias = File | Checkpoint | None
# the keys of a Mapping are invariant: with Hashable, a dict of strings would be refused
ClassWeight: TypeAlias = Literal["balanced"] | Mapping[Any, float] | None
Fixed: TypeAlias = Mapping[Any, npt.ArrayLike] | None
#: indices or names of weights, or a boolean mask
Which: TypeAlias = npt.ArrayLike | Sequence[Hashable] | None
KernelFunction: TypeAlias = Callable[..., npt.ArrayLike]
KernelName: TypeAlias = Literal["rbf", "poly", "sigmoid", "linear"]
Gamma: TypeAlias = Literal["scale", "auto"] | float
