"""The examples of a structured task, in the form the oracle reads."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray


class Examples(Protocol):
    """Examples of one task, in the form the oracle reads. They do not change after construction.

    Examples can offer more: see :class:`DivisibleExamples`, :class:`SignedExamples`,
    :class:`SmoothExamples` and :class:`EagerExamples`. Answers describe an example in the same way in every
    range.
    """

    @property
    def dim(self) -> int:
        """Length of ``w``."""

    def __len__(self) -> int:
        """Number of examples."""

    def oracle(self, w: Array, lo: int, hi: int) -> Answers:
        """Loss-augmented inference for the examples ``lo .. hi-1``."""

    def cut(self, answers: Answers, weights: Array) -> Cut:
        """The weighted sum of the answers' planes: offset = sum s_i Delta_i,
        plane = sum s_i rho_i (Psi(x_i, y^_i) - Psi(x_i, y_i)). ``weights`` covers ``lo .. hi-1``."""

    def cache(self, lo: int, hi: int, size: int) -> ConstraintCache:
        """An empty cache of at most ``size`` labelings for each of the examples ``lo .. hi-1``."""

    def working_sets(self, caps: Array) -> WorkingSets:
        """New dual state with caps ``c_i``. Examples with cap 0 are never visited."""

    def predict(self, w: Array, lo: int, hi: int) -> list[Any]:
        """Inference without the loss."""


@runtime_checkable
class DivisibleExamples(Protocol):
    """Examples of which a part can be sent to a worker. Others are sent to every shard as a whole."""

    def part(self, lo: int, hi: int) -> Examples:
        """The examples ``lo .. hi-1`` alone, numbered from 0, with bit-identical results."""


@runtime_checkable
class SignedExamples(Protocol):
    """Examples whose working sets support nonnegative weights."""

    signed_sets: ClassVar[Literal[True]]

    def working_sets(self, caps: Array, regularizer: SquaredNorm | None = None) -> WorkingSets:
        """As :meth:`Examples.working_sets`, with the regularizer that has the nonnegative coordinates."""


@runtime_checkable
class SmoothExamples(Protocol):
    """Examples with a smooth loss: answers are sums over all outputs, so there is no cache of outputs."""

    smooth: ClassVar[Literal[True]]


@runtime_checkable
class EagerExamples(Protocol):
    """Examples with a faster oracle that may miss the maximum."""

    def eager(self) -> Examples:
        """The same examples with that oracle. Its answers are never used for bounds."""


@runtime_checkable
class MovableSets(Protocol):
    """Working sets that survive a change of latent values."""

    def moved_to(self, examples: Examples, changed: IntArray, wrong_only: bool) -> Self:
        """Continue with examples of which those in ``changed`` have another true output."""


class ConstraintCache(Protocol):
    """A cache of the most recently used labelings of a range of examples: a cheap lower model of the risk.

    Entries are numbered; those of local example i are ``pointers[i] .. pointers[i+1]-1``. The true
    output (value 0) is not stored. Numbers stay valid until the next :meth:`insert`.
    """

    @property
    def pointers(self) -> IntArray:
        """Boundaries between the examples' entries."""

    def insert(self, answers: Answers) -> None:
        """Add labelings not in the cache; a full cache evicts the least recently used ones."""

    def scores(self, w: Array) -> Array:
        """The value Delta_j + <w, p_j> of every entry."""

    def touch(self, chosen: IntArray) -> None:
        """Mark entries (one number per example, -1 for the true output) as used."""

    def cut(self, chosen: IntArray, weights: Array) -> Cut:
        """The weighted sum of the chosen entries' planes, one per example (-1: the true output, no plane)."""
