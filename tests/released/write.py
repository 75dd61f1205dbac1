"""Write the files of the next release: models and data sets that all later versions must read.

    python -m tests.released.write             # into tests/released/VERSION, without .dev0
    python -m tests.released.write --replace   # only before that version was published

Each model has a file, and JSON with inputs and what the model said about them. ``test_released.py`` reads
the files of all versions.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning
from tests.released.cases import CASES, DATASETS, answers, plain

import maxmargin

FOLDER = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Write all files of this version."""
    folder = FOLDER / maxmargin.__version__.partition(".dev")[0]
    if folder.exists() and arguments != ["--replace"]:
        print(
            f"{folder} exists: files of a version that was published never change", file=sys.stderr
        )
        return 2
    folder.mkdir(exist_ok=True)
    for old in sorted(folder.rglob("*"), reverse=True):
        old.rmdir() if old.is_dir() else old.unlink()
    for name, case in CASES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = case.fit().save(folder / f"{name}.safetensors")
        said = {"inputs": plain(case.inputs), **answers(model, case.inputs)}
        (folder / f"{name}.json").write_text(json.dumps(said) + "\n", encoding="utf-8")
        size = (folder / f"{name}.safetensors").stat().st_size
        print(f"{name:30} {size:7} bytes")
    for name, batch in DATASETS.items():
        maxmargin.data.write(folder / name, [batch])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
