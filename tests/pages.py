"""Files that pages of the documentation show, imported as a reader would."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[1] / "docs"


def shown(name: str) -> ModuleType:
    """The module ``docs/name.py``."""
    if str(DOCS) not in sys.path:
        sys.path.insert(0, str(DOCS))
    return importlib.import_module(name)
