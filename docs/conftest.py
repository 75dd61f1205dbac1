"""Pages import the files that they show. Pages about other packages are skipped where these are missing."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

#: modules that a page of docs/migrating imports, besides scikit-learn
NEEDED = {
    "python_crfsuite.rst": "pycrfsuite",
    "sklearn_crfsuite.rst": "sklearn_crfsuite",
    "liblinear.rst": "liblinear",
    "libsvm.rst": "libsvm",
}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent / "migrating":
            module = NEEDED.get(item.path.name)
            if module is not None and find_spec(module) is None:
                item.add_marker(pytest.mark.skip(reason=f"requires the module {module}"))
