"""Records in a file, one JSON object per line."""

from __future__ import annotations

import json
from dataclasses import fields
from math import isfinite
from os import PathLike, fspath
from typing import Any

__all__ = ["JsonLines"]


class JsonLines:
    """Appends every record to a file, as one JSON object per line.

    Each line is written to the file at once, so another program can read it during the fit. Numbers that are
    not finite, such as a lower bound that is not known yet, are null.

    Parameters
    ----------
    path : str or path
        The file. Lines are added at its end.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.callbacks import JsonLines
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "fit.jsonl"
    >>> est = LinearSVC(callbacks=[JsonLines(path)]).fit(*load_breast_cancer(return_X_y=True))
    >>> records = [json.loads(line) for line in path.read_text().splitlines()]
    >>> len(records) == est.n_iter_, records[-1]["gap"] <= 1e-3
    (True, True)
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = path

    def __call__(self, record: Any) -> None:
        values = {field.name: _plain(getattr(record, field.name)) for field in fields(record)}
        # opened for each line: an open file could not be copied or pickled with the estimator
        with open(fspath(self.path), "a", encoding="utf-8") as file:
            file.write(json.dumps(values, allow_nan=False) + "\n")


def _plain(value: object) -> Any:
    """The value as JSON can express it."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if isinstance(value, int | str) or value is None else str(value)
