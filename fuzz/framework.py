"""The common parts of the fuzzer: problems, findings, and how a failing problem is made smaller.

A family is a module with

    NAME: str
    draw(rng) -> Case                   a random problem
    run(case) -> Outcome                fit it, and let the referee check the certificate
    reproduce(case) -> str              a few lines of Python that reproduce the fit, with all arrays
    smaller(case) -> Iterator[Case]     simpler problems to try, the largest reductions first

and is listed in :mod:`fuzz.families`. The referee shares no code with the library.
"""

from __future__ import annotations

import os
import time
import traceback
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

Status = Literal["certified", "warned", "refused", "failed"]

#: the number of a problem is the seed of the run times this, plus its index
PROBLEMS_PER_SEED = 1_000_000

#: seconds for a fit of a problem that is not tame: its certificate is checked wherever it ends. Most of these
#: end within 0.05 s; long runs set the variable to 0.1 and see five times as many problems.
WILD_SECONDS = float(os.environ.get("MAXMARGIN_FUZZ_SECONDS", "1"))


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
    """A false claim: the check that failed, and the numbers."""

    check: str
    detail: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of a fit.

    ``certified``: converged; ``warned``: not converged, with a warning; ``refused``: a clear ValueError or
    TypeError of the library, where one is legitimate; ``failed``: any other error.
    """

    status: Status
    findings: list[Finding] = field(default_factory=list)


class Family(Protocol):
    """A module that generates and checks problems of one kind."""

    NAME: str

    def draw(self, rng: np.random.Generator) -> Case:
        """Generate a random problem."""

    def run(self, case: Case) -> Outcome:
        """Fit and check."""

    def reproduce(self, case: Case) -> str:
        """Python code that reproduces the failing fit."""

    def smaller(self, case: Case) -> Iterator[Case]:
        """Simpler problems."""


def draw(family: Any, seed: int) -> Case:
    """Problem number ``seed`` of a family, which never changes."""
    rng = np.random.default_rng([seed, zlib.crc32(family.NAME.encode())])
    return replace(family.draw(rng), family=family.NAME, seed=seed)


def run(family: Any, case: Case, without: frozenset[str] = frozenset()) -> Outcome:
    """Fit and check; an exception that the family did not expect is a finding.

    ``without``: checks whose findings are ignored.
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
    """A simpler problem on which the same check fails: greedy, the first that fails is accepted."""
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
