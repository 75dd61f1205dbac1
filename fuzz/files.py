"""Thousands of malformed files: none may crash, hang, exhaust the memory or raise a foreign exception.

    python -m fuzz.files --models 20000 --manifests 5000 --checkpoints 5000 --seed 0

Valid files of every kind are written first. Each damaged file is determined by its number, and used as a user
would use it, in a child process with a limit on its memory and on the time per file. Reading it must raise
the library's own error, which quotes the file only in part, or succeed. After a model or a checkpoint was
read, its numbers may be anything, and so may what predictions and further iterations raise; but they must
not crash, hang or exhaust the memory. Anything else is a finding; ``--only models:123`` repeats one, and
``--keep`` leaves its file in a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS = ("models", "manifests", "checkpoints")
#: bytes that a child may allocate after its start, and seconds per file
ROOM, SECONDS = 2**30, 30.0
#: maximum growth of the resident memory by one file of a few kB
GROWTH = 2**28
#: maximum length of an error message, without the file's path: a sentence or two, and 200 characters of the
#: file
LONGEST = 600


@dataclass
class Summary:
    """Counts of the outcomes for the files of one kind."""

    files: int = 0
    loaded: int = 0
    refused: int = 0
    findings: list[tuple[int, str, str]] = field(default_factory=list)
    names: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    late: bool = False


# -- in the child ----------------------------------------------------------------------------------


def corpus_of(folder: Path, kind: str) -> list[Path]:
    """The valid files of a kind."""
    return sorted((folder / kind).iterdir())


def damaged(folder: Path, kind: str, seed: int, number: int, target: Path) -> str:
    """Write the damaged file with this number; return the name of the original."""
    import numpy as np

    from fuzz import file_damage

    rng = np.random.default_rng([seed, KINDS.index(kind), number])
    corpus = corpus_of(folder, kind)
    good = corpus[rng.integers(len(corpus))]
    damage = {
        "models": file_damage.damage_model,
        "manifests": file_damage.damage_dataset,
        "checkpoints": file_damage.damage_checkpoint,
    }[kind]
    damage(good, target, rng, corpus)
    return good.name


def used(kind: str, target: Path, name: str) -> tuple[str, str]:
    """Use a file; return ("loaded" | "refused" | "finding", message)."""
    from fuzz import file_corpus
    from maxmargin import CheckpointError
    from maxmargin.data import DatasetError
    from maxmargin.persistence import ModelFileError

    own = {"models": ModelFileError, "manifests": DatasetError, "checkpoints": CheckpointError}[
        kind
    ]
    try:
        if kind == "checkpoints":
            file_corpus.quiet(file_corpus.use_checkpoint, target, name)
        else:
            use = file_corpus.use_model if kind == "models" else file_corpus.use_dataset
            file_corpus.quiet(use, target)
    except BaseException as error:
        text = str(error).replace(str(target), "")
        if isinstance(error, OSError) and not target.is_file() and kind != "manifests":
            return "refused", text  # the operating system's message for a missing file
        if isinstance(error, FileNotFoundError) and not (target / "manifest.json").exists():
            return "refused", text
        if kind != "manifests" and isinstance(error, Exception) and not _is_reading(error):
            return "loaded", text
        ours = isinstance(error, own) or (kind == "manifests" and _is_later(error))
        if ours and len(text) <= LONGEST:
            return "refused", text
        where = traceback.extract_tb(error.__traceback__)
        mine = [f for f in where if "maxmargin" in f.filename] or where
        at = f"{Path(mine[-1].filename).name}:{mine[-1].lineno}"
        size = f" ({len(text)} characters)" if ours else ""
        return "finding", f"{type(error).__name__} at {at}{size}: {text[:200]}"
    return "loaded", ""


def _is_reading(error: BaseException) -> bool:
    """Whether a model or a checkpoint was being read: all of a load, and a fit until its loop runs."""
    names = {f.name for f in traceback.extract_tb(error.__traceback__)}
    reading = names & {"load", "read_parts", "restore", "prepare", "counted"}
    return isinstance(error, MemoryError) or bool(reading)


def _is_later(error: BaseException) -> bool:
    """Whether the data set is valid but for another estimator: an ordinary error of fit."""
    names = {f.name for f in traceback.extract_tb(error.__traceback__)}
    return type(error) is ValueError and bool(
        names & {"predict", "decision_function", "partial_fit", "fit"}
    )


def child(folder: Path, kind: str, seed: int, numbers: list[int]) -> None:
    """Damage and use files; write one line before and one after each."""
    for good in corpus_of(folder, kind):  # compiles, and checks that the original files are valid
        verdict, text = used(kind, good, good.name)
        if verdict != "loaded":
            raise RuntimeError(f"{good}: {text}")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with tempfile.TemporaryDirectory() as scratch:
        for number in numbers:
            target = Path(scratch) / f"{number}"
            name = damaged(folder, kind, seed, number, target)
            print(json.dumps([number, name]), flush=True)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            verdict, text = used(kind, target, name)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            if grown * 1024 > GROWTH:
                verdict, text = (
                    "finding",
                    f"memory grew by {grown >> 10} MB ({verdict} {text[:100]})",
                )
            print(json.dumps([number, name, verdict, text]), flush=True)
            with contextlib.suppress(OSError):
                shutil.rmtree(
                    target
                ) if target.is_dir() and not target.is_symlink() else target.unlink()


# -- in the parent ---------------------------------------------------------------------------------


def run(
    folder: Path,
    kind: str,
    seed: int,
    numbers: list[int],
    verbose: bool = False,
    seconds: float = float("inf"),
) -> Summary:
    """Use all these files, or as many as the time limit allows; start a new child after each crash or
    hang."""
    out, left, started = Summary(), list(numbers), time.perf_counter()
    while left and not out.late:
        command = [sys.executable, "-m", "fuzz.files", "--child", kind, "--seed", str(seed)]
        command += ["--folder", str(folder)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(left).encode())
            process.stdin.close()
            current: tuple[int, str] | None = None
            for line in _lines(process):
                number, name, *rest = json.loads(line)
                current = None if rest else (number, name)
                if rest:
                    left.remove(number)
                    _count(out, number, name, *rest, verbose)
                    if time.perf_counter() - started > seconds:
                        out.late = True
                        break
            code = process.poll()
            if out.late:
                process.kill()
            elif current is not None:
                left.remove(current[0])
                how = "hangs" if code is None else f"the process ended with {code}"
                _count(out, *current, "finding", how, verbose)
            elif left:
                process.kill()
                raise RuntimeError(f"the child of {kind} ended with {code} before its first file")
            if code is None:
                process.kill()
    out.seconds = time.perf_counter() - started
    return out


def run_all(
    folder: Path,
    kind: str,
    seed: int,
    numbers: list[int],
    jobs: int = 1,
    seconds: float = float("inf"),
) -> Summary:
    """The same with several children at a time."""
    out = Summary()
    with ThreadPoolExecutor(jobs) as pool:
        parts = [
            pool.submit(run, folder, kind, seed, numbers[k::jobs], True, seconds)
            for k in range(jobs)
        ]
        for part in parts:
            done = part.result()
            out.files, out.loaded = out.files + done.files, out.loaded + done.loaded
            out.refused, out.names = out.refused + done.refused, out.names + done.names
            out.findings += done.findings
            out.seconds = max(out.seconds, done.seconds)
    return out


def _environment() -> dict[str, str]:
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    return {**os.environ, **threads, "PYTHONFAULTHANDLER": ""}


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Lines of the child until it ends, or until one takes too long; the first may include compilation."""
    assert process.stdout is not None
    patience, buffer, handle = 900.0, b"", process.stdout.fileno()
    while True:
        ready, _, _ = select.select([handle], [], [], patience)
        if not ready:
            return
        block = os.read(handle, 1 << 16)
        if not block:
            process.wait()
            return
        patience = SECONDS
        *lines, buffer = (buffer + block).split(b"\n")
        yield from lines


def _count(
    out: Summary, number: int, name: str, verdict: str, text: str, verbose: bool = False
) -> None:
    out.files += 1
    out.names[name] += 1
    if verdict == "finding":
        out.findings.append((number, name, text))
        if verbose:
            print(f"  {number} ({name}): {text}", flush=True)
    elif verdict == "loaded":
        out.loaded += 1
    else:
        out.refused += 1


def make_corpus(folder: Path) -> None:
    """Write all valid files."""
    from fuzz import file_corpus

    writers = file_corpus.write_models, file_corpus.write_datasets, file_corpus.write_checkpoints
    for kind, write in zip(KINDS, writers, strict=True):
        (folder / kind).mkdir()
        file_corpus.quiet(write, folder / kind)


def table(summaries: dict[str, Summary]) -> str:
    """The summary as a Markdown table."""
    rows = [
        "| kind | good files | damaged files | loaded | refused | findings |",
        "| --- " * 6 + "|",
    ]
    for kind, s in summaries.items():
        rows.append(
            f"| {kind} | {len(s.names)} | {s.files} | {s.loaded} | {s.refused} | {len(s.findings)} |"
        )
    return "\n".join(rows)


def main() -> int:
    """Run the command; return 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, help=f"number of damaged {kind}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="children at a time")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="most for each kind")
    parser.add_argument("--only", help="one file again, as kind:number")
    parser.add_argument("--keep", type=Path, help="a folder for the damaged file of --only")
    parser.add_argument("--folder", type=Path, help="the good files, if they are there already")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.folder, args.child, args.seed, json.load(sys.stdin))
        return 0
    with contextlib.ExitStack() as stack:
        folder: Path = args.folder
        if folder is None or not (folder / KINDS[-1]).exists():
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.mkdir(exist_ok=True, parents=True)
            make_corpus(folder)
        wanted: dict[str, list[int]] = {kind: list(range(getattr(args, kind))) for kind in KINDS}
        if args.only:
            kind, number = args.only.split(":")
            wanted = {kind: [int(number)]}
            if args.keep:
                args.keep.mkdir(exist_ok=True, parents=True)
                damaged(folder, kind, args.seed, int(number), args.keep / f"{kind}-{number}")
        summaries: dict[str, Any] = {}
        for kind, numbers in wanted.items():
            if numbers:
                summaries[kind] = run_all(
                    folder, kind, args.seed, numbers, args.jobs, 60.0 * args.minutes
                )
    print(table(summaries))
    print(f"\n{sum(s.seconds for s in summaries.values()):.0f} seconds, seed {args.seed}")
    return int(any(s.findings for s in summaries.values()))


if __name__ == "__main__":
    sys.exit(main())
