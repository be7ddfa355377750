"""The recipes have the numbers that papers published."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_recipes_have_what_the_reference_table_gives():
    beside = ROOT.parent / "shared" / "data"
    table = (
        Path(os.environ.get("SENTBED_DATA") or beside).parent
        / "reference"
        / "paper_tables.csv"
    )
    if not table.is_file():
        pytest.skip(
            "needs the published numbers: reference/paper_tables.csv beside the directory SENTBED_DATA"
        )
    tool = ROOT / "tools" / "published.py"
    outcome = subprocess.run(
        [sys.executable, tool, table, "--check"], capture_output=True, text=True
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
