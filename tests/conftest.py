"""What all tests share: the path of the repository, hypothesis' profiles, where the data lies."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from maxmargin.engines import ProcessEngine

ROOT = Path(__file__).resolve().parents[1]
# so that `from benchmarks import datasets` and `from tests.data import require` work
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

os.environ.setdefault("MAXMARGIN_DATA", str(ROOT.parent / "shared" / "data"))

# A process that a shell starts in the background ignores Ctrl-C, and so do its children: tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiled functions compile on their first call: no deadlines. Few examples by default, so that a run
# takes seconds; nightly runs take the same code with more. The default is deterministic: a failure on one
# machine is a failure on all.
_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=12, derandomize=True, **_common)
settings.register_profile("nightly", max_examples=200, **_common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection() -> None:
    """What is imported and collected lives until the end: nothing of it is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Tests that collect garbage need not visit all of it again, which takes a third of a second."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessEngine]:
    """Two worker processes, started once for all tests of a module: that takes longer than the tests."""
    engine = ProcessEngine(2)
    yield engine
    engine.close()


class _Compiled(logging.Handler):
    """What was compiled although the installation has precompiled code."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.found.add(record.getMessage())


#: functions that tests/precompiled calls with types which no fit has; they may compile
UNLISTED = ("vectors.dot", "vectors.add_scaled")


@pytest.fixture(autouse=True, scope="session")
def _nothing_is_missing_in_the_table_of_signatures():
    """With precompiled code: every function that tests call has its types in signatures.txt."""
    logger, handler = logging.getLogger("maxmargin.compiled.function"), _Compiled()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield
    missing = sorted(
        text
        for text in handler.found
        # labels of two bytes: only a nightly test has so many
        if text.split()[1] not in UNLISTED and "uint16" not in text
    )
    assert not missing, "not in signatures.txt (see tools/record_signatures.py):\n" + "\n".join(
        missing
    )
