"""`sentbed migrate`: brings a recipe to the names that this version of sentbed and the plugins have now.

Only the names are rewritten, in their places: comments, order and layout stay as they are, byte for byte.
Files that the recipe extends are left alone; they are recipes of their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from sentbed.editing import Source
from sentbed.errors import Problem, RecipeError
from sentbed.extending import extend
from sentbed.recipe import SCHEMA
from sentbed.registry import Plugins
from sentbed.renaming import rename
from sentbed.toml import Document, parse

BOM = b"\xef\xbb\xbf"


@attrs.frozen
class Migration:
    """A file, and what it is to be."""

    file: str
    before: bytes
    after: bytes
    bases: tuple[str, ...] = ()
    """Files that it extends and that are to be migrated as well."""

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff; none where the file is as it is to be."""
        before, after = (content.decode("utf-8-sig").split("\n") for content in (self.before, self.after))
        for line in difflib.unified_diff(before, after, self.file, self.file, n=1, lineterm=""):
            yield line.rstrip("\r")


Step: TypeAlias = Callable[[Source], None]

STEPS: dict[int, Step] = {}
"""Version of the format -> what says the edits by which a file has the next one; there is none yet."""


def migrate(path: str | Path, plugins: Plugins) -> Migration:
    """Return what a recipe's file, or an encoder's `encoder.toml`, is to be.

    Raises:
        RecipeError: where it is no TOML, is newer than this version of sentbed, or has a key under both its
            names.
    """
    try:
        before = Path(path).read_bytes()
    except OSError as error:
        message = f"cannot read the recipe: {error.strerror or error}; check the path"
        raise RecipeError([Problem(message, file=str(path))]) from error
    parse(before, str(path))
    source = _stepped(Source(before.decode("utf-8-sig"), str(path)))
    whole = extend(source.text.encode(), str(path), SCHEMA)
    if "schema" not in whole.data and _is_recipe(whole.data):
        source = _with_schema(source)
    rename(plugins, source, whole.data)
    after = source.changed().text.encode()
    bases = tuple(base for base in _bases(whole, str(path)) if _is_old(base, plugins))
    return Migration(str(path), before, BOM * before.startswith(BOM) + after, bases)


def _is_recipe(data: Mapping[str, Any]) -> bool:
    """Whether a file without `schema` is a recipe, not a part that others extend."""
    return {"run", "runtime"} <= data.keys() and ("encoder" in data or "encoders" in data)


def _bases(whole: Document, own: str) -> list[str]:
    """Return the files below a recipe that have said something."""
    overruled = (said.file for history in whole.before.values() for said in history)
    return sorted({file for file in (*whole.files.values(), *overruled) if file and file != own})


def _is_old(file: str, plugins: Plugins) -> bool:
    found = migrate(file, plugins)
    return found.before != found.after


def _stepped(source: Source) -> Source:
    """Take a file from version to version of the format, up to this one's."""
    while (found := source.document.data.get("schema", SCHEMA)) != SCHEMA or isinstance(found, bool):
        step = STEPS.get(found) if type(found) is int else None
        if step is None:
            newer = isinstance(found, int) and found > SCHEMA
            advice = "install a newer sentbed" if newer else "there is no way from that one"
            message = f"the file has `schema = {found!r}`, this version of sentbed reads {SCHEMA}: {advice}"
            raise RecipeError([source.document.problem(message, ("schema",))])
        step(source)
        source.edits[source.spans.values["schema",]] = str(found + 1)
        source = source.changed()
    return source


def _with_schema(source: Source) -> Source:
    """Put `schema` before the first key; behind the comments that a file opens with."""
    end = "\r\n" if "\r\n" in source.text else "\n"
    start = source.spans.start
    header = source.text.startswith("[", start)
    source.edits[start, start] = f"schema = {SCHEMA}{end}{end if header else ''}"
    return source.changed()
