"""The scripts of ``examples/integrations``, each with the newest release of its package from PyPI.

For every script, an environment of its own is made with uv outside the repository, with this library and the
packages that the script's ``pip install`` line names, and the script is run in it. A script asserts what it
claims, and its last line says what it showed. Exit code 77 means that its package is missing.

    python -m benchmarks.integrations                          # in a temporary folder
    python -m benchmarks.integrations --environments DIR       # keep the environments
    python -m benchmarks.integrations --only mokapot,onnx      # some scripts

Also writes a table of the page "Measurements behind the guides" (docs/notes/_integrations.inc). Fails if a
script fails. ``--quick`` writes to results/quick only and uses less data.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import HERE, Bench, Cell, Row, scratch

TITLE = "Integrations with other packages"
SCRIPTS = HERE.parent / "examples" / "integrations"
PAGE = HERE.parent / "docs" / "notes" / "_integrations.inc"
SECONDS = 900.0
#: more than a quick run does: the table of mokapot
ARGUMENTS = {"mokapot_rescoring": ["--psms", "100000", "--every-iteration"]}
#: shown beside the packages of the script
ALWAYS = ("scikit-learn", "numpy")


# -- one script ------------------------------------------------------------------------------------


def described(script: Path) -> tuple[str, list[str]]:
    """The title of a script, and what its ``pip install`` line names."""
    text = ast.get_docstring(ast.parse(script.read_text())) or ""
    found = re.search(r"``pip install (.+?)``", text)
    if found is None:
        raise ValueError(f"{script.name} has no line ``pip install ...`` in its docstring")
    return text.strip().splitlines()[0], shlex.split(found[1])


def named(packages: Sequence[str]) -> list[str]:
    """The names of packages, with those that an extra of this library stands for."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    out = [p for p in packages if not p.startswith("maxmargin")]
    for extra in re.findall(r"\[(.+)\]", " ".join(packages)):
        out += project["optional-dependencies"][extra]
    return [re.split(r"[\[<>= ]", p)[0] for p in out]


def uv(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run uv's pip or venv."""
    return subprocess.run(
        [sys.executable, "-m", "uv", *arguments], capture_output=True, text=True, check=False
    )


def environment(folder: Path, packages: Sequence[str]) -> str | None:
    """Make an environment with these packages, and this library from the repository; None, or why not."""
    python = str(folder / "bin" / "python")
    if not folder.exists():
        made = uv("venv", "--quiet", "--python", sys.executable, str(folder))
        if made.returncode:
            return made.stderr.strip()
    ours = [p for p in packages if p.startswith("maxmargin")]
    others = [p for p in packages if not p.startswith("maxmargin")]
    local = [str(HERE.parent) + p.removeprefix("maxmargin") for p in ours]
    done = uv("pip", "install", "--quiet", "--python", python, "-e", *local, *others)
    return None if done.returncode == 0 else done.stderr.strip()


def versions(folder: Path) -> dict[str, str]:
    """The versions of all packages of an environment."""
    listed = uv("pip", "list", "--format", "json", "--python", str(folder / "bin" / "python"))
    return {entry["name"]: entry["version"] for entry in json.loads(listed.stdout or "[]")}


def run(script: Path, folder: Path, arguments: Sequence[str]) -> Cell:
    """Run a script in its environment."""
    title, packages = described(script)
    cell: Cell = {
        "title": title,
        "packages": packages,
        "result": "works",
        "shown": "",
        "output": "",
    }
    problem = environment(folder, packages)
    if problem is not None:
        return {**cell, "result": "not installable here", "shown": _last(problem)}
    found = versions(folder)
    cell["versions"] = {name: found[name] for name in (*named(packages), *ALWAYS) if name in found}
    # compiled functions depend on these two only
    cache = folder.parent / f"numba-{found.get('numba')}-{found.get('numpy')}"
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL"))
    }
    variables |= {"NUMBA_CACHE_DIR": str(cache), "MAXMARGIN_QUIET": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.time()
    try:
        done = subprocess.run(
            [str(folder / "bin" / "python"), str(script), *arguments],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {**cell, "result": "fails", "shown": f"not finished after {SECONDS:g} s"}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cell["wall"] = time.time() - began
    cell["cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cell["output"] = done.stdout
    if done.returncode == 77:
        return {**cell, "result": "not installable here", "shown": _last(done.stdout)}
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        return {**cell, "result": "fails", "shown": _last(done.stderr)}
    return {**cell, "shown": _last(done.stdout)}


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


# -- tables ----------------------------------------------------------------------------------------


def row(script: Path, cell: Cell) -> Row:
    """A line of the table."""
    found = cell.get("versions", {})
    names = named(cell["packages"])
    return {
        "package": ", ".join(names),
        "version": ", ".join(found.get(name, "–") for name in names),
        "with": ", ".join(f"{name} {found[name]}" for name in ALWAYS if name in found),
        "example": script.name,
        "result": cell["result"],
        "shown": cell["shown"].replace("|", "/"),
        "CPU s": round(cell["cpu"], 1) if "cpu" in cell else None,
    }


def mokapot_rows(output: str) -> list[Row]:
    """The table that the script for mokapot prints."""
    found = re.findall(r"^(\S.*?)\s+(\d+)\s+([\d.]+%)\s+([\d.]+)$", output, flags=re.M)
    return [
        {"search": name, "accepted PSMs": int(n), "wrong": wrong, "CPU s": float(seconds)}
        for name, n, wrong, seconds in found
    ]


def write_page(tables: Sequence[tuple[str, Sequence[Row]]]) -> None:
    """The tables as a part of the documentation."""
    lines = [".. made by python -m benchmarks.integrations; do not edit", ""]
    for caption, rows in tables:
        lines += [f".. list-table:: {caption}", "   :header-rows: 1", ""]
        for values in [list(rows[0]), *(list(r.values()) for r in rows)]:
            cells = ["–" if value is None else str(value) for value in values]
            lines += [f"   {'* -' if i == 0 else '  -'} {text}" for i, text in enumerate(cells)]
        lines.append("")
    PAGE.write_text("\n".join(lines))


def report(bench: Bench, cells: dict[Path, Cell]) -> None:
    """Print and save the tables."""
    rows = [row(script, cell) for script, cell in cells.items()]
    notes = (
        "Each script in an environment of its own, with the newest releases that uv finds. CPU seconds are "
        "those of the whole process, with imports, and with the compilation of functions that the folder of "
        "environments does not have yet."
    )
    tables = [("packages", "Packages", rows, notes)]
    pages: list[tuple[str, Sequence[Row]]] = [("Integrations", rows)]
    by_name = {script.stem: cell for script, cell in cells.items()}
    matches = mokapot_rows(by_name.get("mokapot_rescoring", {}).get("output", ""))
    if matches and not bench.quick:
        text = (
            "100,000 generated PSMs with 20 features, half of them decoys; mokapot's three folds and ten "
            "iterations, accepted at an FDR of 1 %, all of mokapot's own work included. The last row is what "
            "mokapot does with an estimator that it does not recognize as a search."
        )
        tables.append(("mokapot", "mokapot on 100,000 PSMs", matches, text))
        pages.append(("mokapot on 100,000 generated PSMs", matches))
    bench.save(TITLE, tables)
    if not bench.quick:
        write_page(pages)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.integrations", description=TITLE)
    parser.add_argument("--environments", type=Path, help="keep the environments in this folder")
    parser.add_argument(
        "--only", default="", help="beginnings of the names of scripts, with commas"
    )
    parser.add_argument(
        "--quick", action="store_true", help="less data; the documentation stays as it is"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the results of earlier runs")
    options = parser.parse_args()
    bench = Bench("integrations", quick=options.quick, fresh=options.fresh)
    chosen = tuple(options.only.split(","))
    with scratch() as temporary:
        root = (options.environments or temporary).resolve()
        root.mkdir(parents=True, exist_ok=True)
        for script in sorted(SCRIPTS.glob("*.py")):
            arguments = [] if options.quick else ARGUMENTS.get(script.stem, [])
            if script.stem.startswith(chosen):
                if options.only:
                    bench.path(script.stem).unlink(missing_ok=True)
                bench.inline(script.stem, lambda s=script, a=arguments: run(s, root / s.stem, a))
    cells = {script: bench.get(script.stem) for script in sorted(SCRIPTS.glob("*.py"))}
    finished = {script: cell for script, cell in cells.items() if cell is not None}
    report(bench, finished)
    return int(any(cell["result"] == "fails" for cell in finished.values()))


if __name__ == "__main__":
    sys.exit(main())
