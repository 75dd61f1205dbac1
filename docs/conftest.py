"""Pages import the files that they show."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
