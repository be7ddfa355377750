"""Conversion of matplotlib's SVG into a page element with the page's theme colours and unique ids."""

from __future__ import annotations

import html
import re

from sentbed_report.figures.colours import PAGE_COLOURS

_VARIABLES = {stand_in: f"var(--{name})" for name, stand_in in PAGE_COLOURS.items()}


_POINT = r"<use (?:(?!style=)[^>])*"
"""The beginning of a point, up to its style."""

_ALIKE = rf'(<g[^>]*)>({_POINT}style="([^"]*)"/>(?:{_POINT}style="\3"/>)+)</g>'
"""A group of points that look alike."""


def _with_shared_style(match: re.Match[str]) -> str:
    """Return a group of points with their common style in the group's tag instead of in each point."""
    group, points, style = match.groups()
    of_point = f' style="{style}"'
    return f"{group}{of_point}>{points.replace(of_point, '')}</g>"


def page_svg(text: str, label: str, prefix: str) -> str:
    """Return an `<svg>` element for a page.

    `text` is an SVG file of matplotlib, `label` the description for screen readers. Ids get the prefix
    `prefix`, so that they differ between the figures of a page.
    """

    def page_tag(match: re.Match[str]) -> str:
        # Groups have names, of which each figure has the same.
        tag = re.sub(r'^<g id="[^"]*"', "<g", " ".join(match[0].split()))
        tag = re.sub(r'( id="|href="#|url\(#)', rf"\1{prefix}", tag).replace(
            "xlink:href", "href"
        )
        tag = re.sub(r"#0101[0-9a-f]{2}", lambda colour: _VARIABLES[colour[0]], tag)
        return re.sub(
            r"-?\d+\.\d+",
            lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."),
            tag,
        )

    _, box, content = re.split(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', text, maxsplit=1)
    # A style sheet would apply to the whole page.
    content = re.sub(
        r"<(metadata|style)\b.*?</\1>|<!--.*?-->", "", content, flags=re.DOTALL
    )
    content = re.sub(r"<[^>]+>", page_tag, content)
    content = re.sub(r">\s*\n\s*<", "><", content)
    content = re.sub(_ALIKE, _with_shared_style, content)
    # A line to where it starts draws a round cap: a point of a scatter in half the characters.
    content = re.sub(r"M (\S+) (\S+) L \1 \2(?=[ \"])", r"M\1 \2h0", content)
    return (
        f'<svg viewBox="{box}" role="img" aria-label="{html.escape(label)}">{content}'
    )
