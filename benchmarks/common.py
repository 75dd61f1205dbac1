"""What the benchmarks share: stored cells, fresh processes, the machine's line, tables.

A benchmark is a table of *cells*. A cell runs in a process of its own (so that its peak memory is its own
and nothing is warm but what it warmed itself) and leaves one small JSON file; a rerun takes finished
cells from there. Import this module before numpy: it pins BLAS to one thread, or to BENCHMARK_THREADS.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = os.environ.get("BENCHMARK_THREADS", "1")

import argparse
import contextlib
import csv
import datetime
import hashlib
import importlib.metadata
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
Cell = dict[str, Any]
Row = dict[str, Any]
#: (slug, heading, rows, notes): the slug ends the name of the table's CSV file
Table = tuple[str, str, Sequence[Row], str]


def cpu() -> float:
    """CPU seconds of this process: what is reported on a shared machine."""
    return time.process_time()


def peak_memory_gb() -> float:
    """Largest resident memory of this process, in GB (10^9 bytes).

    VmHWM where there is one: ru_maxrss of a child also counts the parent it was forked from.
    """
    try:
        text = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) * 1024 / 1e9  # type: ignore[index]
    except (OSError, TypeError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def source_mark() -> str:
    """Eight hex digits of the library's sources: which code a table measured."""
    import maxmargin

    root = Path(maxmargin.__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def machine() -> str:
    """Cores, processor and versions, without names of hosts or users."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())
        model = found[1].strip() if found else model
    names = ("numpy", "scipy", "scikit-learn", "numba", "python-crfsuite", "vowpalwabbit", "skglm")
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    ours = f"maxmargin {importlib.metadata.version('maxmargin')} (sources {source_mark()})"
    return (
        f"{os.cpu_count()} cores ({model}), shared with other work; one thread; Python "
        f"{platform.python_version()}, {', '.join(versions)}, {ours}"
    )


# -- files -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for large files, in MAXMARGIN_SCRATCH if that is set, for as long as it is needed."""
    folder = Path(tempfile.mkdtemp(prefix="maxmargin-", dir=os.environ.get("MAXMARGIN_SCRATCH")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def on_disk(batches: Iterable[tuple[Any, Any]]) -> Iterator[Path]:
    """A data set of these rows and labels, for as long as it is needed."""
    import maxmargin.data

    with scratch() as folder:
        maxmargin.data.write(folder / "rows", batches)
        yield folder / "rows"


# -- cells -----------------------------------------------------------------------------------------


class Bench:
    """One benchmark: its name, its folder of results, its stored cells."""

    def __init__(
        self, name: str, *, quick: bool = False, fresh: bool = False, flags: Iterable[str] = ()
    ) -> None:
        self.name, self.quick, self.flags = name, quick, frozenset(flags)
        self.command = name
        self.folder = HERE / "results" / ("quick" if quick else "")
        self.cells = self.folder / "cells" / name
        if fresh:
            shutil.rmtree(self.cells, ignore_errors=True)
        self.cells.mkdir(parents=True, exist_ok=True)
        self._mark = source_mark()

    def path(self, key: str) -> Path:
        """File of a cell."""
        return self.cells / (re.sub(r"[^\w.+-]+", "_", key) + ".json")

    def get(self, key: str) -> Cell | None:
        """A finished cell, or None."""
        path = self.path(key)
        return json.loads(path.read_text()) if path.exists() else None

    def put(self, key: str, cell: Cell) -> Cell:
        """Store a finished cell."""
        cell = {
            "key": key,
            "date": datetime.date.today().isoformat(),
            "sources": self._mark,
            **cell,
        }
        path = self.path(key)
        path.with_suffix(".part").write_text(json.dumps(cell, indent=1, default=float))
        path.with_suffix(".part").rename(path)
        return cell

    def start(self, key: str, spec: Cell, *, nice: int = 0) -> subprocess.Popen[bytes]:
        """Begin a cell in a process of its own; it stores itself when it is done."""
        command = [sys.executable, "-m", f"benchmarks.{self.name}", "--cell", json.dumps(spec)]
        command += ["--key", key] + (["--quick"] if self.quick else [])
        if nice:
            command = ["nice", "-n", str(nice), *command]
        return subprocess.Popen(command, cwd=HERE.parent)

    def run(self, key: str, spec: Cell) -> Cell:
        """A finished cell from its file, or else from a new process. A failure is a cell too."""
        found = self.get(key)
        if found is not None:
            return found
        began = time.time()
        status = self.start(key, spec).wait()
        found = self.get(key)
        if found is None:
            found = {"key": key, "error": f"process ended with status {status}"}
        print(f"  [{self.name}] {key}: {time.time() - began:.0f} s", file=sys.stderr, flush=True)
        return found

    def inline(self, key: str, work: Callable[[], Cell]) -> Cell:
        """A finished cell from its file, or else from ``work()`` in this process."""
        found = self.get(key)
        if found is None:
            began = time.time()
            found = self.put(key, work())
            print(
                f"  [{self.name}] {key}: {time.time() - began:.0f} s", file=sys.stderr, flush=True
            )
        return found

    def save(self, title: str, tables: Sequence[Table]) -> None:
        """Print the tables and save them: all in ``NAME.md``, each one also in ``NAME_SLUG.csv``."""
        dates = sorted({json.loads(p.read_text())["date"] for p in self.cells.glob("*.json")})
        marks = sorted({json.loads(p.read_text())["sources"] for p in self.cells.glob("*.json")})
        when = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "–"
        lines = [f"# {title}", "", f"Measured {when}. {machine()}."]
        if marks and marks != [self._mark]:
            lines.append(f"Cells were measured with library sources {', '.join(marks)}.")
        lines.append(
            f"Made by `python -m benchmarks.{self.command}`; seconds are CPU seconds unless a column says "
            "otherwise."
        )
        for slug, heading, rows, notes in tables:
            lines += ["", f"## {heading}", ""]
            if rows:
                lines += markdown(rows)
                _write_csv(self.folder / f"{self.name}_{slug}.csv", rows)
            if notes:
                lines += ["", notes.strip()]
        text = "\n".join(lines) + "\n"
        (self.folder / f"{self.name}.md").write_text(text)
        print(text, flush=True)


def markdown(rows: Sequence[Row]) -> list[str]:
    """A Markdown table of rows that share their keys."""
    names = list(rows[0])
    out = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    out += ["| " + " | ".join(show(row.get(n)) for n in names) + " |" for row in rows]
    return out


def show(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value == 0 or 1e-2 <= abs(value) < 1e6:
            return f"{value:.4g}" if abs(value) < 1e3 else f"{value:.1f}"
        return f"{value:.2e}"
    return str(value)


def _write_csv(path: Path, rows: Iterable[Row]) -> None:
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def command_line(
    name: str,
    title: str,
    cell: Callable[[Cell, Bench], Cell],
    table: Callable[[Bench], None],
    flags: dict[str, str] | None = None,
) -> None:
    """The command of a benchmark: all of it, or (internally) one cell of it.

    ``flags``: names and help of further flags; those that are given are in ``bench.flags``.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=title)
    parser.add_argument("--quick", action="store_true", help="small data, a smoke run")
    parser.add_argument("--fresh", action="store_true", help="forget finished cells")
    for flag, text in (flags or {}).items():
        parser.add_argument(f"--{flag}", action="store_true", help=text)
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    parser.add_argument("--key", help=argparse.SUPPRESS)
    options = parser.parse_args()
    given = [flag for flag in flags or {} if getattr(options, flag.replace("-", "_"))]
    bench = Bench(name, quick=options.quick, fresh=options.fresh, flags=given)
    if options.cell is None:
        table(bench)
    else:
        bench.put(options.key, cell(json.loads(options.cell), bench))
