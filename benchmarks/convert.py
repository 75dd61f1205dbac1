"""Conversion of compressed text to a data set: processes, a bare parse and write, kills, and two appends.

Files in svmlight's format with 100 features per line are compressed with gzip and converted by
``maxmargin.data.convert``. Set MAXMARGIN_SCRATCH to a folder in memory (``/dev/shm``), where fsync does
nothing, so that the seconds are those before the final fsync. *Bare* decompresses and parses the same files
with the same compiled parser, and writes the arrays, without checks, checksums, and a manifest. Runs are
interleaved, and the median of their ratios is shown. The start of the two processes is shown alone.

Kills end a conversion of uncompressed text with all of its workers (``kill -9``) at random moments until one
ends. Parts redone are those of which files, but no record, were there.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, scratch

# ruff: isort: split
import gzip
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

TITLE = "Converting text to a data set"
FILES, LINES, REPEATS, KILLS = 8, 30_000, 5, 20
QUICK_FILES, QUICK_LINES, QUICK_REPEATS, QUICK_KILLS = 2, 1_000, 1, 2
PART_BYTES = 2 << 20

CONVERT = """
import sys
from maxmargin import data
from maxmargin.engines import ProcessEngine
if __name__ == "__main__":
    data.convert(sys.argv[1], sys.argv[2], n_jobs=2, part_bytes=int(sys.argv[3]))
"""
APPEND = """
import sys
import numpy as np
from maxmargin import data
rows = data.open(sys.argv[1])
def batches():
    yield np.zeros((1000, 5)), np.ones(1000)
    print("ready", flush=True)
    sys.stdin.readline()          # both append at the same moment
    yield np.zeros((1000, 5)), np.ones(1000)
try:
    rows.append(batches(), shard_bytes=4000)
    print("written")
except data.DatasetError as error:
    print("refused")
"""


def lines(n: int, seed: int) -> bytes:
    """Lines with 100 of 10,000 features."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        columns = np.unique(rng.integers(1, 10_000, 100)).tolist()
        values = rng.standard_normal(len(columns)).tolist()
        features = " ".join(f"{c}:{v:.6g}" for c, v in zip(columns, values, strict=True))
        out.append(f"{int(rng.integers(2)) * 2 - 1} {features}\n")
    return "".join(out).encode()


def bare(sources: list[Path], folder: Path) -> None:
    """Parse, and write the arrays."""
    from maxmargin import data

    folder.mkdir()
    for k, source in enumerate(sources):
        names = ("data", "indices", "indptr", "label")
        files = [(folder / f"{k}.{name}").open("wb", buffering=1 << 20) for name in names]
        for X, y in data.read_svmlight(source):
            for file, values in zip(
                files, (X.data, X.indices, X.indptr.astype("<i8"), y), strict=True
            ):
                file.write(values.view(np.uint8).data)
        for file in files:
            file.close()


def timed(spec: Cell) -> Cell:
    """Seconds of one way of converting the files, in this process or its workers."""
    from functools import partial

    from maxmargin import data
    from maxmargin.data import conversion
    from maxmargin.engines import ProcessEngine

    sources = sorted(Path(spec["folder"]).glob("*.svm.gz"))
    target = Path(spec["folder"]) / spec["target"]
    bare(sources[:1], Path(spec["folder"]) / f"warm-{spec['target']}")  # compiled, imported
    out: Cell = {}
    if spec["kind"] == "bare":
        began = time.perf_counter()
        bare(sources, target)
    elif spec["kind"] == "one":
        began = time.perf_counter()
        out["fingerprint"] = data.convert(sources, target).fingerprint
    else:
        engine = ProcessEngine(2)
        began = time.perf_counter()
        warm = [
            [part] for k in range(2) for part in conversion._parts(str(sources[k]), None, {}, [1])
        ]
        folder = Path(spec["folder"]) / f"started-{spec['target']}"
        engine.open(partial(conversion._PartWriter, folder, None, None), warm)
        engine.gather(conversion._PartWriter.run)
        out["start"] = time.perf_counter() - began
        began = time.perf_counter()
        out["fingerprint"] = data.convert(sources, target, engine=engine).fingerprint
    out["seconds"] = time.perf_counter() - began
    return out


def started(target: Path) -> set[str]:
    """The random digits of parts that were begun."""
    return {name[5:20] for name in os.listdir(target) if re.match(r"0000-\d{20}", name)}


def completed(target: Path) -> set[str]:
    """The random digits of complete parts."""
    records = (path.read_text() for path in target.glob("part-*.json"))
    return {found[1] for text in records if (found := re.search(r'"0000-(\d{15})', text))}


def killed(spec: Cell) -> Cell:
    """Conversions that are killed at random moments, and started again."""
    source, folder = Path(spec["source"]), Path(spec["folder"])
    command = [sys.executable, spec["script"], str(source)]

    def run(target: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*command, str(target), str(PART_BYTES)], start_new_session=True)

    began = time.perf_counter()
    assert run(folder / "expected").wait() == 0
    seconds = time.perf_counter() - began
    random.seed(spec["seed"])
    kills, redone, runs = 0, list[int](), 0
    from maxmargin import data

    expected = data.open(folder / "expected").fingerprint
    while kills < spec["kills"]:
        target = folder / f"killed-{runs}"
        while kills < spec["kills"]:
            process = run(target)
            time.sleep(random.uniform(0.0, 0.9) * seconds)
            if process.poll() is not None:
                break
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            if target.exists() and not (target / "manifest.json").exists():
                redone.append(len(started(target) - completed(target) - spec_seen(target)))
        if not (target / "manifest.json").exists():
            assert run(target).wait() == 0
        found = data.open(target)
        found.verify()
        assert found.fingerprint == expected
        runs += 1
    return {"kills": kills, "conversions": runs, "redone": redone, "parts": len(expected)}


_SEEN: dict[Path, set[str]] = {}


def spec_seen(target: Path) -> set[str]:
    """Parts that were lost in earlier kills of this conversion; adds those of now."""
    seen = _SEEN.setdefault(target, set())
    before = set(seen)
    seen |= started(target) - completed(target)
    return before


def appends(folder: Path, times: int) -> list[list[str]]:
    """What two processes say that append at the same moment."""
    from maxmargin import data

    said = []
    for k in range(times):
        path = folder / f"appended-{k}"
        data.write(path, [(np.ones((10, 5)), np.arange(10) % 2)])
        both = [
            subprocess.Popen(
                [sys.executable, "-c", APPEND, str(path)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for _ in range(2)
        ]  # fmt: skip
        for process in both:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in both:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said.append(sorted(process.communicate()[0].strip() for process in both))
        found = data.open(path)
        found.verify()
        assert len(found) == 2010
    return said


def cell(spec: Cell, bench: Bench) -> Cell:
    """One timing, or one series of kills."""
    return killed(spec) if spec["kind"] == "kills" else timed(spec)


def table(bench: Bench) -> None:
    """Generate the files, run everything, and write the tables."""
    quick = bench.quick
    n, size = (QUICK_FILES, QUICK_LINES) if quick else (FILES, LINES)
    repeats, kills = (QUICK_REPEATS, QUICK_KILLS) if quick else (REPEATS, KILLS)
    with scratch() as folder:
        text = lines(size, 0)
        packed = gzip.compress(text, 6)
        for k in range(n):
            (folder / f"{k}.svm.gz").write_bytes(packed)
        (folder / "all.svm").write_bytes(text)
        megabytes = n * len(text) / 1e6
        runs: dict[str, list[Cell]] = {"bare": [], "one": [], "two": []}
        for r in range(repeats):
            for kind, cells in runs.items():
                spec = {"kind": kind, "folder": str(folder), "target": f"{kind}-{r}"}
                cells.append(bench.run(f"{kind}-{r}", spec))
        prints = {str(c["fingerprint"]) for kind in ("one", "two") for c in runs[kind]}
        assert len(prints) == 1
        script = folder / "convert_two.py"
        script.write_text(CONVERT)
        spec = {"kind": "kills", "source": str(folder / "all.svm"), "folder": str(folder)}
        spec |= {"script": str(script), "kills": kills, "seed": 0}
        dead = bench.run("kills", spec)
        said = bench.inline("appends", lambda: {"said": appends(folder, 2 if quick else 5)})["said"]
    seconds = {kind: [c["seconds"] for c in cells] for kind, cells in runs.items()}

    def ratio(a: str, b: str) -> float:
        return statistics.median(x / y for x, y in zip(seconds[a], seconds[b], strict=True))

    names = {"bare": "bare parse and write", "one": "one process", "two": "two processes"}
    rows: list[Row] = [
        {
            "run": names[kind],
            "wall seconds": statistics.median(seconds[kind]),
            "MB of text per second": megabytes / statistics.median(seconds[kind]),
            "speed, bare = 1": ratio("bare", kind),
            "speed, one process = 1": ratio("one", kind),
        }
        for kind in runs
    ]
    start = statistics.median(c["start"] for c in runs["two"])
    note = f"{n} files, {megabytes:.0f} MB of text; {repeats} runs of each. Two processes take {start:.1f} s "
    note += "to start, which is not counted. All fingerprints are equal."
    fine = sum(s == ["refused", "written"] for s in said)
    faults: list[Row] = [
        {
            "what": f"{dead['kills']} kills of 2 processes, {dead['parts']} parts",
            "outcome": f"{dead['conversions']} conversions, same fingerprint; at most "
            f"{max(dead['redone'], default=0)} parts redone after a kill",
        },
        {
            "what": f"2 appends at the same moment, {len(said)} times",
            "outcome": f"{fine} times one was written and one refused",
        },
    ]
    tables: list[Any] = [
        ("speed", "Speed, compressed text", rows, note),
        ("faults", "Kills and two writers", faults, ""),
    ]
    bench.save(TITLE, tables)


if __name__ == "__main__":
    command_line("convert", TITLE, cell, table)
