"""The parent process: starts children, detects hangs and crashes, and counts."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fuzz.families import named
from fuzz.framework import draw
from fuzz.runner import Settings, problem

ROOT = Path(__file__).resolve().parents[1]
#: problems per child: memory that fits do not release would accumulate
BATCH = 2000
#: maximum ratio of elapsed time to processor time of a problem
BUSY = 5.0


@dataclass
class Report:
    """Counts by family and kind, and the findings."""

    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, family: str, kind: str, status: str, checks: list[str]) -> None:
        """Count one problem."""
        row = self.counts.setdefault((family, kind), Counter())
        row["problems"] += 1
        row[status] += 1
        for check in checks:
            row[f"finding: {check}"] += 1

    def show(self) -> None:
        """Print the sums, and how to reproduce each finding."""
        total: Counter[str] = Counter()
        for row in self.counts.values():
            total.update(row)
        print(f"\n{dict(total)} in {self.seconds:.0f} s")
        for found in self.findings:
            checks = ", ".join(sorted({check for check, _ in found["findings"]}))
            print(f"  {found['family']} --replay {found['number']} ({found['kind']}): {checks}")


@dataclass
class Child:
    """A child process and its output lines."""

    settings: Settings
    process: Any = None
    lines: Any = None

    def start(self) -> None:
        """Start at ``settings.first``."""
        s = self.settings
        command = [sys.executable, "-m", "fuzz", "--child", "--seed", str(s.seed)]
        command += ["--only", s.only, "--minutes", str(s.seconds / 60.0), "--first", str(s.first)]
        command += ["--shrink", str(s.shrink), "--without", ",".join(s.without)]
        if s.problems is not None:
            command += ["--problems", str(s.problems)]
        self.lines = queue.Queue()
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            if line.startswith('{"event"'):
                self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self, seconds: float) -> dict[str, Any] | None:
        """The next event; None at the end. Raises TimeoutError after this many seconds of processor time, or
        many more of elapsed time: on a busy machine a slow problem is not a hang."""
        began, worked = time.monotonic(), self._worked()
        while True:
            try:
                event: dict[str, Any] | None = self.lines.get(timeout=1.0)
            except queue.Empty:
                waited = time.monotonic() - began
                if waited > BUSY * seconds or (
                    waited > seconds and self._worked() - worked > seconds
                ):
                    raise TimeoutError from None
            else:
                return event

    def _worked(self) -> float:
        """Seconds of processor time, or of elapsed time if the system does not report it."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@dataclass
class Trial:
    """The result of one child: where it stopped, and the reason if it did not end normally."""

    next_index: int
    trouble: str = ""


def supervise(settings: Settings) -> Report:
    """Run children until the limit of time, problems or findings is reached."""
    named(settings.only)  # report an unknown name here, not in a child
    report, index, began = Report(), settings.first, time.monotonic()
    while True:
        report.seconds = time.monotonic() - began
        left = settings.seconds - report.seconds
        done = settings.problems is not None and index >= settings.problems
        if left <= 0 or done or len(report.findings) >= settings.stop_after:
            return report
        last = index + BATCH if settings.problems is None else min(settings.problems, index + BATCH)
        trial = follow(replace(settings, first=index, seconds=left, problems=last), report)
        if trial.trouble:
            # run it again alone, with more time: the first use of a function compiles it
            alone = replace(
                settings,
                first=trial.next_index,
                problems=trial.next_index + 1,
                limit=2 * settings.limit,
            )
            again = follow(replace(alone, seconds=float(10**6)), report)
            if again.trouble:
                _lost(settings, report, trial.next_index, again.trouble)
            trial = Trial(trial.next_index + 1)
        elif trial.next_index == index:
            return report
        index = trial.next_index


def follow(settings: Settings, report: Report) -> Trial:
    """Follow one child to its end."""
    child = Child(settings)
    child.start()
    at: dict[str, Any] = {}
    index = settings.first
    fresh = True
    try:
        while True:
            patience = settings.limit + settings.shrink + (settings.start if fresh else 0.0)
            event = child.next(patience)
            if event is None:
                child.process.wait()
                if child.process.returncode != 0 and not at:
                    raise RuntimeError("the child process did not start: see its messages above.")
                if child.process.returncode == 0 or index > at["index"]:
                    # or it crashed at a smaller problem, which is already reported
                    return Trial(index)
                return Trial(index, f"crash: the interpreter ended with {child.process.returncode}")
            if event["event"] == "begin":
                at = event
            elif event["event"] == "drawn":
                at["kind"] = event["kind"]
            elif event["event"] == "end":
                fresh = False  # from now on there are no imports, and little compilation
                _count(report, at, event)
                index = event["index"] + 1
                if len(report.findings) >= settings.stop_after and not event["findings"]:
                    return Trial(index)
            elif event["event"] == "shrunk":
                _show(at, event, "smaller")
                if report.findings:
                    report.findings[-1].update(code=event["code"])
                if len(report.findings) >= settings.stop_after:
                    return Trial(index)
    except TimeoutError:
        if not at:
            raise RuntimeError(
                f"the child process did not start within {patience:.0f} s."
            ) from None
        if index > at["index"]:  # it was reducing the problem: the finding is already reported
            return Trial(index)
        return Trial(index, f"finite time: not done after {patience:.0f} s")
    finally:
        child.kill()


def _count(report: Report, at: dict[str, Any], event: dict[str, Any]) -> None:
    report.count(at["family"], at["kind"], event["status"], [c for c, _ in event["findings"]])
    if event["findings"]:
        _show(at, event, "")
        report.findings.append({**at, "findings": event["findings"], "code": event["code"]})


def _show(at: dict[str, Any], event: dict[str, Any], how: str) -> None:
    print(f"\n#### {at['family']} --replay {at['number']} ({at['kind']}) {how}")
    for check, detail in event["findings"]:
        print(f"# {check}: {detail}")
    if how:
        print(event["code"], flush=True)


def _lost(settings: Settings, report: Report, index: int, trouble: str) -> None:
    """Report a problem that hung or crashed twice."""
    family, number = problem(settings, index)
    case = draw(family, number)
    check = trouble.split(":")[0]
    at = {"family": family.NAME, "kind": case.kind, "number": number, "index": index}
    event = {"findings": [[check, trouble]], "code": family.reproduce(case)}
    report.count(family.NAME, case.kind, "failed", [check])
    report.findings.append({**at, **event})
    _show(at, event, "as drawn")
