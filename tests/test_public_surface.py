"""No removal, rename or changed default of what is public slips through."""

from __future__ import annotations

import difflib

from public_surface import FILE, surface


def test_the_public_surface_is_the_one_that_was_agreed_on():
    before = FILE.read_text("utf-8").splitlines()
    now = surface().splitlines()
    changes = [
        line
        for line in difflib.unified_diff(before, now, lineterm="", n=0)
        if line[:1] in "+-"
    ]
    assert changes == [], (
        "the public surface has changed: if it is meant, run `python tests/support/public_surface.py`"
    )
