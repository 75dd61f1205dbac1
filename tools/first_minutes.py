"""The first minutes with maxmargin: a transcript from a new virtual environment, with times.

    python tools/first_minutes.py

Builds the wheel, installs it into an empty virtual environment with an empty cache of compiled code, runs the
examples of the README and a few other commands as a new user would, and writes
``benchmarks/results/first_minutes.md``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from run_readme import find_groups  # noqa: E402

TAGGER = """\
from maxmargin import SequenceTagger

words = [["the", "old", "man"], ["the", "boat"], ["man", "the", "boat"], ["old", "boat"]]
tags = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"], ["VERB", "DET", "NOUN"], ["ADJ", "NOUN"]]
X = [[{"word": w, "end": w[-2:]} for w in sentence] for sentence in words]
tagger = SequenceTagger().fit(X, tags)
print(tagger.predict([[{"word": "the"}, {"word": "old"}]]), tagger.certificate_)
"""
#: file: its content
EXAMPLES = {
    f"{name}.py": "\n".join(source for _, source in group.blocks)
    for name, group in zip(
        ("linear", "matching"), find_groups((ROOT / "README.md").read_text()), strict=False
    )
} | {"tagger.py": TAGGER}
#: what the user types
COMMANDS = [
    "pip install maxmargin",
    "python linear.py",
    "python linear.py",
    "python tagger.py",
    "python matching.py",
    "maxmargin warmup",
    "python tagger.py",
]


def run(command: str, folder: Path, wheel: Path) -> tuple[str, float]:
    """What a command prints, and its wall time."""
    typed = command.split()
    if typed[:2] == ["pip", "install"]:
        typed = ["pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    typed[0] = str(folder / "venv" / "bin" / typed[0])
    hidden = ("PYTHONPATH", "MAXMARGIN_QUIET")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    environment["NUMBA_CACHE_DIR"] = str(folder / "cache")
    began = time.perf_counter()
    done = subprocess.run(
        typed,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stdout}")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("WARNING: ")]
    return "\n".join(lines).replace(str(folder), "~"), seconds


def main() -> None:
    """Run the commands and write the transcript."""
    from benchmarks.common import machine

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        for file, source in EXAMPLES.items():
            (folder / file).write_text(source + "\n")
        wheel = next(folder.glob("*.whl"))
        found = [(command, *run(command, folder, wheel)) for command in COMMANDS]
    lines = [
        "# The first minutes",
        "",
        f"Measured {time.strftime('%Y-%m-%d')}. {machine()}. Made by `python tools/first_minutes.py`, in a "
        "new virtual environment with an empty cache of compiled code. `linear.py` and `matching.py` are the "
        "examples of the README; `pip` installs the built wheel and its dependencies.",
        "",
        "```text",
    ]
    for command, printed, seconds in found:
        lines += [f"$ {command}", *printed.splitlines(), f"  ({seconds:.1f} s)", ""]
    lines[-1] = "```"
    lines += ["", "`tagger.py`:", "", "```python", TAGGER.rstrip(), "```"]
    path = ROOT / "benchmarks" / "results" / "first_minutes.md"
    path.write_text("\n".join(lines) + "\n")
    print(path.read_text())


if __name__ == "__main__":
    main()
