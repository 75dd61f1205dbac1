"""Check that everything says the version in src/maxmargin/_version.py and is ready for its release.

    python tools/check_release.py                # what is missing
    python tools/check_release.py --tag v0.1.0   # the same, for this tag

RELEASING.md is the checklist. Nothing is imported and nothing is built, so it needs Python alone.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version() -> str:
    """The version, from the one place where it is written."""
    text = (ROOT / "src/maxmargin/_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("src/maxmargin/_version.py has no line __version__ = ...")
    return found.group(1)


def lowest(requirements: list[str]) -> dict[str, str]:
    """The lowest version of each package, on the oldest Python."""
    out: dict[str, str] = {}
    for text in requirements:
        name, bound = re.match(r"([\w-]+)>=([\d.]+)", text).groups()  # type: ignore[union-attr]
        out.setdefault(name, bound)
    return out


def problems(tag: str | None) -> list[str]:
    """What is not ready."""
    now, out = version(), []
    if not re.fullmatch(r"\d+\.\d+\.\d+", now):
        out.append(f"the version is {now}, not one of a release")
    if tag is not None and tag != f"v{now}":
        out.append(f"the tag is {tag}, and the version is {now}")
    now = now.partition(".dev")[0]  # the release that is being prepared
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"## {now} (" not in changelog:
        out.append(f"CHANGELOG.md has no section {now}")
    elif not re.search(rf"^## {re.escape(now)} \(\d{{4}}-\d\d-\d\d\)", changelog, re.MULTILINE):
        out.append(f"CHANGELOG.md has no date for {now}")
    if not list((ROOT / "tests/released" / now).glob("*.safetensors")):
        out.append(f"tests/released/{now} has no model files: python -m tests.released.write")
    return [*out, *_recipe(now)]


def _recipe(now: str) -> list[str]:
    """What in the recipe for conda differs from the project."""
    out = []
    recipe = (ROOT / "conda/recipe.yaml").read_text(encoding="utf-8")
    if f'  version: "{now}"' not in recipe:
        out.append(f"conda/recipe.yaml has another version than {now}")
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    for name, bound in lowest(tool["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]).items():
        if f"    - {name} >={bound}\n" not in recipe:
            out.append(f"conda/recipe.yaml does not require {name} >={bound}")
    hook = (ROOT / "hatch_build.py").read_text(encoding="utf-8")
    for compiler in re.findall(r'"(numba==[\d.]+)"', hook):
        if f"    - {compiler.replace('==', ' ==')} " not in recipe:
            out.append(f"conda/recipe.yaml does not compile with {compiler}")
    return out


def main(arguments: list[str]) -> int:
    """Print what is missing; the exit code is 1 if anything is."""
    parser = argparse.ArgumentParser(description="Check that the version is ready for its release.")
    parser.add_argument("--tag", help="the tag of the release, such as v0.1.0")
    found = problems(parser.parse_args(arguments).tag)
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print(f"{version()} is ready")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
