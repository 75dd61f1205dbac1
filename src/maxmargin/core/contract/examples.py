"""The examples of a structured task, packed where the oracle runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from maxmargin.core.contract.answers import Answers
from maxmargin.core.contract.latent import LatentAnswers
from maxmargin.core.contract.working_sets import WorkingSets
from maxmargin.core.cut import Cut
from maxmargin.core.vectors import Array, IntArray


class Examples(Protocol):
    """Examples of one task, packed where the oracle runs. Nothing is written after construction.

    Examples that are to travel to workers have a method ``part(lo, hi)`` too: the examples ``lo .. hi-1``
    alone, counted from 0, which answer with the same bits. Without it all examples go to every shard. Answers
    speak of an example in the same way whatever the range it is in.
    """

    @property
    def dim(self) -> int:
        """Length of ``w``."""

    def __len__(self) -> int:
        """Number of examples."""

    def oracle(self, w: Array, lo: int, hi: int) -> Answers:
        """Loss-augmented argmax of the examples ``lo .. hi-1``."""

    def cut(self, answers: Answers, weights: Array) -> Cut:
        """The weighted sum of the answers' planes: offset = sum s_i Delta_i,
        plane = sum s_i rho_i (Psi(x_i, y^_i) - Psi(x_i, y_i)). ``weights`` covers ``lo .. hi-1``."""

    def cache(self, lo: int, hi: int, size: int) -> ConstraintCache:
        """An empty cache of at most ``size`` labellings for each of the examples ``lo .. hi-1``."""

    def working_sets(self, caps: Array) -> WorkingSets:
        """Fresh dual state with caps ``c_i`` (zero caps allowed: such examples are never visited).

        Examples whose sets know weights that must not be negative have ``signed_sets = True`` and take the
        regularizer as a second argument."""

    def predict(self, w: Array, lo: int, hi: int) -> list[Any]:
        """The argmax without loss."""


class LatentExamples(Examples, Protocol):
    """Examples of which each has a latent value, completed."""

    def complete(self, w: Array, lo: int, hi: int) -> LatentAnswers:
        """The latent values of largest score at ``w`` for the labelled outputs of ``lo .. hi-1``."""

    def completed(self, latent: Sequence[Any]) -> LatentExamples:
        """The same examples with other latent values."""


class ConstraintCache(Protocol):
    """The most recently used labellings of a range of examples: a cheap lower model of the risk.

    Entries are numbered; those of local example i are ``pointers[i] .. pointers[i+1]-1``. The true
    output (value 0) is not stored. Numbers stay valid until the next :meth:`insert`.
    """

    @property
    def pointers(self) -> IntArray:
        """Boundaries of the examples' entries."""

    def insert(self, answers: Answers) -> None:
        """Add labellings not yet held; the least recently used leave when the cache is full."""

    def scores(self, w: Array) -> Array:
        """The value Delta_j + <w, p_j> of every entry."""

    def touch(self, chosen: IntArray) -> None:
        """Mark entries (one number per example, -1 for the true output) as used."""

    def cut(self, chosen: IntArray, weights: Array) -> Cut:
        """The weighted sum of the chosen entries' planes, one per example (-1: the true output, no plane)."""
