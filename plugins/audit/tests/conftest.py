"""What tests of the audit share: `result_folders` is a module like any other."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
