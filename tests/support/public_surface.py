"""What sentbed offers to plugins and users, a line for each name, field and method.

`python tests/support/public_surface.py` writes `tests/public_surface.txt` anew. What a line loses or changes
there breaks a plugin: it raises the first number of `sentbed.API_VERSION`; a new line raises the second.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sentbed
from sentbed_workbench.protocol_docs import entries

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


def surface() -> str:
    """Return the text of the file."""
    lines = [f"API_VERSION {sentbed.API_VERSION}"]
    for module in MODULES:
        lines += ["", f"[{module}]", *_lines(module)]
    return "\n".join(lines) + "\n"


def _lines(module_name: str) -> Iterator[str]:
    module = importlib.import_module(module_name)
    for name in sorted(set(dir(module))):
        value = getattr(module, name)
        if (
            name.startswith("_")
            or inspect.ismodule(value)
            or _is_of_others(value, module_name)
        ):
            continue
        for number, entry in enumerate(entries(name, value)):
            yield entry.signature if number == 0 else f"    {entry.signature}"


def _is_of_others(value: Any, module_name: str) -> bool:
    """Whether a value is only imported there, from another library or into a module that is no facade."""
    home = getattr(value, "__module__", None)
    if not (inspect.isclass(value) or inspect.isroutine(value)) or home is None:
        return False
    is_face = module_name in (
        "sentbed",
        "sentbed.protocols",
        "sentbed.helpers",
        "sentbed.statistics",
        "sentbed.tools",
    )
    return not home.startswith("sentbed") or (not is_face and home != module_name)


if __name__ == "__main__":
    FILE.write_text(surface(), "utf-8")
