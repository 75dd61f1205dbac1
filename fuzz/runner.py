"""The child process: solves problem after problem, announces each one first, and writes one JSON line per
event."""

from __future__ import annotations

import faulthandler
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from fuzz.families import named
from fuzz.framework import PROBLEMS_PER_SEED, Case, Outcome, draw, run, shrink


@dataclass(frozen=True)
class Settings:
    """The settings of the command line."""

    seed: int = 0
    only: str = ""
    seconds: float = 60.0
    problems: int | None = None
    first: int = 0
    limit: float = 60.0
    start: float = 60.0
    shrink: float = 20.0
    without: frozenset[str] = frozenset()
    stop_after: int = 50


def problem(settings: Settings, index: int) -> tuple[Any, int]:
    """The family and the number of the problem at this index: families alternate."""
    families = named(settings.only)
    family = families[index % len(families)]
    return family, settings.seed * PROBLEMS_PER_SEED + index // len(families)


def say(event: str, **what: Any) -> None:
    """Write one line to the parent."""
    print(json.dumps({"event": event, **what}), flush=True)


def work(settings: Settings) -> None:
    """Solve problems from ``first`` on, until the limit of time or number is reached."""
    faulthandler.enable()
    started, index = time.monotonic(), settings.first
    last = None if settings.problems is None else settings.problems
    while time.monotonic() - started < settings.seconds and (last is None or index < last):
        family, number = problem(settings, index)
        say("begin", index=index, family=family.NAME, number=number)
        case = draw(family, number)
        say("drawn", index=index, kind=case.kind)
        outcome = run(family, case, settings.without)
        _tell(settings, family, case, outcome, index)
        index += 1


def _tell(settings: Settings, family: Any, case: Case, outcome: Outcome, index: int) -> None:
    found = [[finding.check, finding.detail] for finding in outcome.findings]
    code = family.reproduce(case) if found else ""
    say("end", index=index, status=outcome.status, findings=found, code=code)
    if found:
        small, findings = shrink(family, case, found[0][0], settings.shrink, settings.without)
        kept = [[finding.check, finding.detail] for finding in findings]
        if kept:
            say("shrunk", index=index, findings=kept, code=family.reproduce(small))


def replay(settings: Settings, number: int) -> int:
    """Repeat one problem in this process; return 1 if anything was found."""
    bad = 0
    for family in named(settings.only):
        case = draw(family, number)
        began = time.monotonic()
        outcome = run(family, case, settings.without)
        took = time.monotonic() - began
        print(f"{family.NAME} {number} ({case.kind}): {outcome.status}, {took:.1f} s")
        if outcome.findings:
            bad = 1
            check = outcome.findings[0].check
            small, findings = shrink(family, case, check, settings.shrink, settings.without)
            for finding in findings:
                print(f"  {finding.check}: {finding.detail}")
            print(family.reproduce(small))
    sys.stdout.flush()
    return bad
