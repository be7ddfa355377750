"""Portable paths in a finished run or study, so that it can be moved: relative, `data:`, `pkg:` or `~`."""

from __future__ import annotations

import html
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import attrs
from sentbed import RunError
from sentbed.helpers import SUMS_FILE, data_root, open_file, read_json, write_atomic
from sentbed.tools import MANIFEST

TEXT = (".csv", ".html", ".json", ".jsonl", ".md", ".svg", ".tex", ".toml")
STUDY = "study.json"
STUDY_RECIPE = "study.toml"
MOST = 1 << 28
"""Bytes of the largest file that is looked at."""

_BEFORE, _AFTER = r"(?<![\w./~-])", r"(?=[/\"'\s<>&,;:)\]`\\]|$)"
_ABSOLUTE = re.compile(r"(?<![\w./:<~-])/(?P<top>[\w.@+-]+)(?:/[\w.@+-]+)+")
_ESCAPES: tuple[Callable[[str], str], ...] = (
    str,
    html.escape,
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
)


@attrs.frozen
class Portable:
    """What `make_portable` has done."""

    changed: tuple[Path, ...]
    """Files that were written anew."""
    together: Path
    """Directory to move as a whole: paths that lead out of the run or study stay below it."""
    left: Mapping[str, Path]
    """Absolute path -> a file that still names it."""
    unfinished: tuple[Path, ...]
    """Runs of a study that were left as they are, since going on with them compares paths."""


def make_portable(directory: Path) -> Portable:
    """Rewrite the absolute paths in the text files of a finished run, or of a study, in place.

    A path below `SENTBED_DATA` becomes a `data:` location, and one in an installed package a `pkg:` location.
    A path below a directory that also holds the run becomes relative to the file that names it, unless that
    directory is the root, the home directory or above it. Other paths in the home directory begin with `~`.

    Raises:
        RunError: if it is neither a run nor a study, or a run that has not finished.
    """
    directory = directory.resolve()
    status = _status(directory)
    if status is None and not (directory / STUDY).is_file():
        raise RunError(f"`{directory}` has neither `{MANIFEST}` nor `{STUDY}`; name a run or a study")
    if status not in (None, "finished"):
        raise RunError(
            f"the run in `{directory}` has not finished ({status}), and going on with it compares its paths; "
            f"finish it first with `sentbed run --resume {directory}`"
        )
    changed: list[Path] = []
    unfinished: list[Path] = []
    left: dict[str, Path] = {}
    together = directory
    for path, kept in _files(directory, unfinished):
        try:
            with open_file(path) as stream:
                before = stream.read(MOST).decode()
        except UnicodeDecodeError:
            continue
        after, highest = before, path.parent
        if not kept:
            after, highest = _rewritten(before, path)
        if len(highest.parts) < len(together.parts):
            together = highest
        if after != before:
            write_atomic(path, after.encode())
            changed.append(path)
        for found in _ABSOLUTE.finditer(after):
            if Path("/", found["top"]).is_dir():
                left.setdefault(found[0], path)
    return Portable(tuple(changed), together, left, tuple(unfinished))


def _status(directory: Path) -> str | None:
    """Return the status in a run's manifest, or None without a manifest."""
    try:
        content = read_json(directory / MANIFEST)
    except OSError:
        return None
    except ValueError as error:
        raise RunError(
            f"`{directory / MANIFEST}` is not what was written: {error}; run the recipe again"
        ) from error
    return str(content.get("status")) if isinstance(content, dict) else "damaged"


def _files(directory: Path, unfinished: list[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each text file, and whether a checksum keeps it as it is; add runs that have not finished."""
    for name, below, names in os.walk(directory):
        place = Path(name)
        if place != directory and _status(place) not in (None, "finished"):
            unfinished.append(place)
            below.clear()
            continue
        below.sort()
        kept = any(
            (above / SUMS_FILE).is_file()
            for above in (place, *place.parents)
            if above.is_relative_to(directory)
        )
        for one in sorted(names):
            path = place / one
            # What a link leads to is not the run's own.
            if one.endswith(TEXT) and path.is_file() and not path.is_symlink() and path.stat().st_size < MOST:
                yield path, kept


def _rewritten(text: str, path: Path) -> tuple[str, Path]:
    """Return a file's text with its paths rewritten, and the highest directory that relative ones need."""
    if path.name != STUDY_RECIPE:
        return _relative_to(path.parent, text)
    # Comments name the files of a study's recipe; its relative paths start from the first one's directory.
    comments = re.match(r"(?:#[^\n]*\n)*", text)
    head = comments[0] if comments else ""
    source = re.search(r"^# From (.+)$", head, re.MULTILINE)
    base = (path.parent / source[1]).parent.resolve() if source else path.parent
    above, highest = _relative_to(path.parent, head)
    below, other = _relative_to(base, text[len(head) :])
    return above + below, min(highest, other, key=lambda one: len(one.parts))


def _relative_to(place: Path, text: str) -> tuple[str, Path]:
    highest = place
    for root, written in _roots(place):
        for escaped, escape in {escape(str(root)): escape for escape in _ESCAPES}.items():
            pattern = _BEFORE + re.escape(escaped)
            if written is None:
                text = re.sub(rf"{pattern}/(\w+){_AFTER}", partial(_in_package, root), text)
                continue
            # `data:` takes the place of the separator too.
            pattern += f"(?:/|{_AFTER})" if written == "data:" else _AFTER
            text, count = re.subn(pattern, escape(written).replace("\\", r"\\"), text)
            if count and root in place.parents and written not in ("data:", "~"):
                highest = min(highest, root, key=lambda one: len(one.parts))
    return text, highest


def _roots(place: Path) -> list[tuple[Path, str | None]]:
    """Return directories and what is written for each, longer ones first; None is for parents of packages."""
    data, home = data_root(), Path.home().resolve()
    found: list[tuple[Path, str | None]] = []
    if data is not None:
        found += [(data.absolute(), "data:"), (data.resolve(), "data:")]
    for entry in filter(os.path.isdir, sys.path):
        found += [(Path(entry).absolute(), None), (Path(entry).resolve(), None)]
    for above in (place, *place.parents):
        if above in (home, *home.parents) or above == Path(above.anchor):
            break
        found.append((above, Path(os.path.relpath(above, place)).as_posix()))
    found.append((home, "~"))
    return sorted(dict.fromkeys(found), key=lambda one: -len(str(one[0])))


def _in_package(root: Path, found: re.Match[str]) -> str:
    return f"pkg:{found[1]}" if (root / found[1] / "__init__.py").is_file() else found[0]
