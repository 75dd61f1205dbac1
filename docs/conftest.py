"""Pages import the files that they show. Pages about other packages are skipped where these are missing."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

#: modules that a page of docs/migrating imports, besides scikit-learn
NEEDED = {
    "python_crfsuite.rst": ["pycrfsuite"],
    "sklearn_crfsuite.rst": ["sklearn_crfsuite"],
    "liblinear.rst": ["liblinear"],
    "libsvm.rst": ["libsvm"],
    "structsvm.rst": ["structsvm", "ilpy", "pyscipopt"],
}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == Path(__file__).parent / "migrating":
            missing = [name for name in NEEDED.get(item.path.name, []) if find_spec(name) is None]
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"requires {', '.join(missing)}"))
