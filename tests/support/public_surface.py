"""What sentbed offers to plugins and users, a line for each name, field and method.

`python tests/support/public_surface.py` writes `tests/public_surface.txt` anew.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from sentbed_workbench.protocol_docs import entries, public_names

FILE = Path(__file__).parent.parent / "public_surface.txt"

MODULES = (
    "sentbed",
    "sentbed.protocols",
    "sentbed.helpers",
    "sentbed.statistics",
    "sentbed.tools",
    "sentbed.errors",
    "sentbed.hookspecs",
)
"""The modules that docs/plugins/compatibility.md calls public."""


def surface():
    """Return the text of the file."""
    lines = []
    for module in MODULES:
        lines += ["", f"[{module}]", *_lines(module)]
    return "\n".join(lines).lstrip() + "\n"


def _lines(module_name):
    names = public_names(importlib.import_module(module_name))
    for name, value in names.items():
        for number, entry in enumerate(entries(name, value)):
            yield entry.signature if number == 0 else f"    {entry.signature}"


if __name__ == "__main__":
    FILE.write_text(surface(), "utf-8")
