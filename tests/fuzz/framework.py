"""What the random problems share: a problem, what was found, how a failing one is made smaller.

A family is a module with

    NAME: str
    draw(rng) -> Case                   a random problem
    run(case) -> Outcome                fit it, and let the referee check what the fit claims
    reproduce(case) -> str              a few lines of Python that show the failing fit, arrays written out
    smaller(case) -> Iterator[Case]     simpler problems to try, the boldest first

and is listed in :mod:`tests.fuzz.families`. The referee shares no code with the library.
"""

from __future__ import annotations

import time
import traceback
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

Status = Literal["certified", "warned", "refused", "failed"]

#: problems of one run: its seed times this, plus the number of the problem
PROBLEMS_PER_SEED = 1_000_000


@dataclass(frozen=True)
class Case:
    """A random problem: plain arrays and parameters only, so that it can be printed and pickled."""

    family: str
    kind: str
    seed: int
    data: dict[str, Any]

    def with_data(self, **changes: Any) -> Case:
        """The same problem with other data."""
        return replace(self, data={**self.data, **changes})


@dataclass(frozen=True)
class Finding:
    """One claim that is not true: which check says so, and the numbers."""

    check: str
    detail: str


@dataclass(frozen=True)
class Outcome:
    """What a fit came to.

    ``certified``: converged; ``warned``: not converged, and said so; ``refused``: a clear ValueError or
    TypeError of the library, where one is legitimate; ``failed``: an error that is none of these.
    """

    status: Status
    findings: list[Finding] = field(default_factory=list)


class Family(Protocol):
    """A module that draws and checks problems of one kind."""

    NAME: str

    def draw(self, rng: np.random.Generator) -> Case:
        """A random problem."""

    def run(self, case: Case) -> Outcome:
        """Fit and check."""

    def reproduce(self, case: Case) -> str:
        """Python that shows the failing fit."""

    def smaller(self, case: Case) -> Iterator[Case]:
        """Simpler problems."""


def draw(family: Any, seed: int) -> Case:
    """Problem number ``seed`` of a family: the same one for ever."""
    rng = np.random.default_rng([seed, zlib.crc32(family.NAME.encode())])
    return replace(family.draw(rng), family=family.NAME, seed=seed)


def run(family: Any, case: Case, without: frozenset[str] = frozenset()) -> Outcome:
    """Fit and check; an exception that the family did not expect is a finding.

    ``without``: checks whose findings do not count.
    """
    try:
        outcome = family.run(case)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        detail = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
        outcome = Outcome("failed", [Finding("exception", detail)])
    kept = [finding for finding in outcome.findings if finding.check not in without]
    return Outcome(outcome.status, kept)


def shrink(
    family: Any,
    case: Case,
    check: str,
    seconds: float,
    without: frozenset[str] = frozenset(),
) -> tuple[Case, list[Finding]]:
    """A simpler problem on which the same check fails: greedy, the first that does is taken."""
    deadline = time.monotonic() + seconds
    best, findings = case, run(family, case, without).findings
    better = True
    while better and time.monotonic() < deadline:
        better = False
        for candidate in family.smaller(best):
            if time.monotonic() > deadline:
                break
            found = run(family, candidate, without).findings
            if any(finding.check == check for finding in found):
                best, findings, better = candidate, found, True
                break
    return best, findings
