"""What sentbed offers to plugins and users, a line for each name, field and method.

`python tests/support/public_surface.py` writes `tests/public_surface.txt` anew.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import attrs

FILE = Path(__file__).parent.parent / "public_surface.txt"

MODULES = (
    "sentbed",
    "sentbed.protocols",
    "sentbed.helpers",
    "sentbed.tools",
    "sentbed.errors",
    "sentbed.hookspecs",
)
"""The modules that docs/plugins/compatibility.md calls public."""


def surface():
    """Return the text of the file."""
    lines = []
    for name in MODULES:
        lines += [f"[{name}]", *_lines(importlib.import_module(name)), ""]
    return "\n".join(lines)


def _lines(module):
    for name in sorted(set(dir(module))):
        value = getattr(module, name)
        home = getattr(value, "__module__", module.__name__)
        if name.startswith("_") or inspect.ismodule(value):
            continue
        if not str(home).startswith("sentbed"):
            continue
        if inspect.isclass(value):
            yield f"class {name}"
            yield from _members(value)
        elif inspect.isroutine(value):
            yield f"def {name}{_signature(value)}"
        else:
            yield name


def _members(cls):
    fields = {}
    if attrs.has(cls):
        fields = {field.name: field for field in attrs.fields(cls)}
    for name, field in fields.items():
        default = ""
        if field.default is not attrs.NOTHING:
            default = " = ..."
        yield f"    {name}: {_annotation(cls, name)}{default}"

    for name, value in vars(cls).items():
        if name.startswith("_") or name in fields:
            continue
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function):
            yield f"    def {name}{_signature(function)}"
        else:
            yield f"    {name}"


def _annotation(cls, name):
    """Return the annotation of a field as it is written; `attrs.resolve_types` replaces that of the field."""
    for base in cls.__mro__:
        annotations = vars(base).get("__annotations__", {})
        if name in annotations:
            return annotations[name]
    return None


def _signature(function):
    return str(inspect.signature(function)).replace("'", "")


if __name__ == "__main__":
    FILE.write_text(surface(), "utf-8")
