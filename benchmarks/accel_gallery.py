"""scikit-learn's own example gallery with and without ``maxmargin.accel``.

Runs every script of the gallery that imports ``LinearSVC``, ``LinearSVR``, ``SVC``, ``SVR`` or
``LogisticRegression``, as it is and with ``python -m maxmargin.accel -v``, and compares what both print. The
gallery is not part of this repository: pass the folder ``examples`` of scikit-learn's sources.

    python -m benchmarks.accel_gallery ~/scikit-learn/examples
    python -m benchmarks.accel_gallery ~/scikit-learn/examples --only svm/     # some scripts

Numbers of the output count as equal within 1e-2. Lines that mention seconds or time are left out: they differ
in every run.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.common import HERE, Row, machine, markdown

USES = re.compile(
    r"import .*\b(LinearSVC|LinearSVR|SVC|SVR|LogisticRegression)\b"
    r"|^ {4}(LinearSVC|LinearSVR|SVC|SVR|LogisticRegression),$"
    r"|\bsvm\.(LinearSVC|LinearSVR|SVC|SVR)\b|linear_model\.LogisticRegression\b",
    re.MULTILINE,
)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
TIMED = re.compile(r"second|time|\d ?m?s\b|ms\b", re.IGNORECASE)
SECONDS = 300


def run(script: Path, switched: bool) -> tuple[int, str, str, float]:
    """Exit code, output, errors and CPU seconds of one run."""
    command = [sys.executable, "-W", "ignore"]
    command += ["-m", "maxmargin.accel", "-v"] if switched else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [*command, str(script.resolve())],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env={**os.environ, "MPLBACKEND": "Agg"},
                check=False,
            )
            code, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            code, out, err = 124, "", str(error.stderr or "")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return code, out, err, cpu


def compare(plain: str, switched: str) -> str:
    """What differs between two outputs, in a word."""
    a, b = (
        [line for line in text.splitlines() if not TIMED.search(line)] for text in (plain, switched)
    )
    if not any(a):
        return "nothing printed"
    if a == b:
        return "same text"
    if [NUMBER.sub("#", line).split() for line in a] != [
        NUMBER.sub("#", line).split() for line in b
    ]:
        return "other text"
    worst = 0.0
    for x, y in zip(NUMBER.findall("\n".join(a)), NUMBER.findall("\n".join(b)), strict=True):
        worst = max(worst, abs(float(x) - float(y)) / max(1.0, abs(float(x))))
    return "numbers within 0.01" if worst <= 0.01 else f"numbers differ by up to {worst:.2g}"


def row(script: Path, root: Path) -> Row:
    """One script: with, without, and why what was scikit-learn's."""
    code, out, err, cpu = run(script, False)
    name = script.relative_to(root).as_posix()
    if code:
        why = "runs too long" if code == 124 else (err.strip().splitlines() or ["no message"])[-1]
        return {"script": name, "result": f"fails without the switch: {why[:80]}"}
    code, out2, err2, cpu2 = run(script, True)
    reports = [line for line in err2.splitlines() if line.startswith("maxmargin.accel: ")]
    ours = sum(line.endswith("fitted by maxmargin") for line in reports)
    reasons = Counter(
        line.partition("fitted by scikit-learn: ")[2][:70]
        for line in reports
        if "scikit-learn: " in line
    )
    if code:
        result = f"FAILS: {(err2.strip().splitlines() or ['no message'])[-1][:80]}"
    else:
        result = compare(out, out2)
    return {
        "script": name,
        "result": result,
        "fits here": ours,
        "fits by scikit-learn": sum(reasons.values()),
        "why": "; ".join(f"{why} ({n})" for why, n in reasons.most_common(3)),
        "CPU s without": round(cpu, 1),
        "CPU s with": round(cpu2, 1),
    }


def main() -> None:
    """Run all scripts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("examples", type=Path)
    parser.add_argument("--only", default="", help="scripts whose path contains this")
    chosen = parser.parse_args()
    root = chosen.examples
    scripts = [
        path
        for path in sorted(root.rglob("*.py"))
        if chosen.only in str(path) and USES.search(path.read_text())
    ]
    rows = []
    for path in scripts:
        rows.append(row(path, root))
        print(rows[-1], flush=True)
    kinds = Counter(re.sub(r"[:\d].*", "", str(r["result"])).strip() for r in rows)
    summary = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
    title = f"# scikit-learn's gallery with maxmargin.accel\n\n{len(rows)} scripts: {summary}.\n\n"
    made = f"\n\n{datetime.date.today().isoformat()}, {machine()}\n"
    text = title + "\n".join(markdown(rows)) + made
    if not chosen.only:
        (HERE / "results" / "accel_gallery.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
