"""Private names of scikit-learn, which it changes without notice, are in one file."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import maxmargin
from maxmargin import compat

SOURCES = Path(maxmargin.__file__).parent


def private_names(text):
    """What a program imports or names of scikit-learn that begins with an underscore."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        else:
            continue
        yield from (name for name in names if name.startswith("sklearn.") and "._" in name)


def test_private_names_are_found():
    text = (
        "from sklearn.a import _b, c\nimport sklearn._d\nmodule = 'sklearn.e._f'\nfrom g import _h"
    )
    assert list(private_names(text)) == ["sklearn.a._b", "sklearn._d", "sklearn.e._f"]


def test_no_other_file_has_private_names():
    files = [path for path in SOURCES.rglob("*.py") if path.name != "compat.py"]
    assert len(files) > 300
    found = {
        path: names for path in files if (names := list(private_names(path.read_text("utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize("name", compat.METHODS)
def test_methods_that_are_extended_exist(name):
    assert callable(getattr(BaseEstimator, name))


def test_classes_that_are_replaced_exist():
    for name, (public, private) in compat.CLASSES.items():
        assert getattr(import_module(public), name) is getattr(import_module(private), name)
    assert isinstance(compat.BaseSearchCV, type)
