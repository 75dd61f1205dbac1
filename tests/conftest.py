"""What all tests share: the path of the repository, hypothesis' profiles, where the data lies."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
# so that `from benchmarks import datasets` and `from tests.data import require` work
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

os.environ.setdefault("MAXMARGIN_DATA", str(ROOT.parent / "shared" / "data"))

# Compiled functions compile on their first call: no deadlines. Few examples by default, so that a run
# takes seconds; nightly runs take the same code with more. The default is deterministic: a failure on one
# machine is a failure on all.
_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=12, derandomize=True, **_common)
settings.register_profile("nightly", max_examples=200, **_common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
