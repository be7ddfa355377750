"""Conversion of matplotlib's SVG files into `<svg>` elements with a page's theme colours and unique ids."""

from __future__ import annotations

import html
import re

from sentbed_report.figures.colours import PAGE_COLOURS

_VARIABLES = {stand_in: f"var(--{name})" for name, stand_in in PAGE_COLOURS.items()}


_GROUP_NAME = re.compile(r'^<g id="[^"]*"')
"""Beginning of a group with its id. These ids are left out, since matplotlib uses the same ones in every
figure."""

_ID = re.compile(r'( id="|href="#|url\(#)')
"""Text before an id, or before a reference to an id."""

_PLACEHOLDER = re.compile(r"#0101[0-9a-f]{2}")
"""Placeholder of a theme colour; see `PAGE_COLOURS`."""

_NUMBER = re.compile(r"-?\d+\.\d+")

_POINT = r"<use (?:(?!style=)[^>])*"
"""Regular expression for the beginning of a point, up to its style."""

_ALIKE = rf'(<g[^>]*)>({_POINT}style="([^"]*)"/>(?:{_POINT}style="\3"/>)+)</g>'
"""Regular expression for a group whose points all have the same style."""


def _with_shared_style(match: re.Match[str]) -> str:
    """Return a group of points with the style in the group's tag, instead of in each point."""
    group, points, style = match.groups()
    of_point = f' style="{style}"'
    return f"{group}{of_point}>{points.replace(of_point, '')}</g>"


def _theme_colour(placeholder: re.Match[str]) -> str:
    return _VARIABLES[placeholder[0]]


def _short_number(number: re.Match[str]) -> str:
    """Return a number with at most two decimals."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def page_svg(
    text: str,
    label: str,
    prefix: str,
) -> str:
    """Return an `<svg>` element for a page.

    `text` is the content of an SVG file of matplotlib, and `label` the description for screen readers. All ids
    begin with `prefix`, so that the figures of a page have different ids.
    """

    def page_tag(match: re.Match[str]) -> str:
        tag = " ".join(match[0].split())
        tag = _GROUP_NAME.sub("<g", tag)
        tag = _ID.sub(rf"\1{prefix}", tag)
        tag = tag.replace("xlink:href", "href")
        tag = _PLACEHOLDER.sub(_theme_colour, tag)
        return _NUMBER.sub(_short_number, tag)

    _, box, content = re.split(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', text, maxsplit=1)
    # Style sheets are removed, as they would apply to the whole page.
    content = re.sub(
        r"<(metadata|style)\b.*?</\1>|<!--.*?-->", "", content, flags=re.DOTALL
    )
    content = re.sub(r"<[^>]+>", page_tag, content)
    content = re.sub(r">\s*\n\s*<", "><", content)
    content = re.sub(_ALIKE, _with_shared_style, content)
    # A shorter notation for the zero-length lines of scatter plots.
    content = re.sub(r"M (\S+) (\S+) L \1 \2(?=[ \"])", r"M\1 \2h0", content)
    tag = f'<svg viewBox="{box}" role="img" aria-label="{html.escape(label)}">'
    # The content ends with the closing tag.
    return f"{tag}{content}"
