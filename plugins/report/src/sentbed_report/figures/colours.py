"""Colours of figures: CSS variables in a page, or the colours of a theme in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, TypeAlias

from sentbed_report.page_template import resource

Theme: TypeAlias = Literal["light", "dark"]

SERIES = 6
"""Number of colours for lines and points."""

_NAMES = ("fg", "muted", "line", "page", *(f"c{index}" for index in range(SERIES)))

PAGE_COLOURS: Mapping[str, str] = {
    name: f"#0101{index:02x}" for index, name in enumerate(_NAMES, start=1)
}
"""Placeholders for the colours of a page: `page_svg` replaces each by the page's CSS variable `var(--NAME)`."""

_RULES = {"light": ":root", "dark": ':root[data-theme="dark"]'}

_current: ContextVar[Mapping[str, str]] = ContextVar("colours", default=PAGE_COLOURS)
"""Colours of the figure that is being drawn."""


def colour(name: str) -> str:
    """Return a colour of the figure that is being drawn: `fg`, `muted`, `line`, `page`, or `c0` to `c5`."""
    return _current.get()[name]


def series_colour(index: int) -> str:
    """Return the colour of line number `index`; colours repeat after the last."""
    return colour(f"c{index % SERIES}")


@contextmanager
def use_colours(colours: Mapping[str, str]) -> Iterator[None]:
    """Let `colour` return these colours within a `with` block."""
    token = _current.set(colours)
    try:
        yield
    finally:
        _current.reset(token)


def theme_colours(theme: Theme) -> dict[str, str]:
    """Return a theme's colours from the page's style sheet; in the light theme, `page` is white, like paper."""
    style = resource("sentbed_report.page", "style.css")
    block = re.search(
        rf"^{re.escape(_RULES[theme])} {{(.*?)}}", style, re.DOTALL | re.MULTILINE
    )
    assert block is not None

    variables = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block[1]))
    colours = {name: variables[name] for name in _NAMES}
    if theme == "light":
        colours["page"] = "#ffffff"
    return colours
