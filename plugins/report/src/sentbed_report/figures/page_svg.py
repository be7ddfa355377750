"""SVG of matplotlib as an element of a page: it follows the page's theme, and its ids are its own."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from sentbed_report.figures.colours import PAGE_COLOURS

_VARIABLES = {stand_in: f"var(--{name})" for name, stand_in in PAGE_COLOURS.items()}

_SIZES = ("width", "height", "version")
"""Attributes of a file: a page decides how large a figure is."""

_NUMBERS = ("d", "x", "y", "points", "transform")
"""Attributes with coordinates, which are rounded to a hundredth of a pixel."""


def page_svg(text: str, name: str, label: str) -> str:
    """Return an `<svg>` element for a page.

    `text` is a file that matplotlib has written, `name` makes its ids unique in the page, and `label` is what
    a screen reader says.
    """
    root = ET.fromstring(text)
    _remove_file_parts(root)
    references = sorted(set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", text)))
    ids = {reference: f"{name}-{index}" for index, reference in enumerate(references)}
    for element in root.iter():
        element.tag = _local_name(element.tag)
        attributes = {_local_name(key): value for key, value in element.attrib.items()}
        if attributes.get("id") not in ids:
            attributes.pop("id", None)
        element.attrib = {key: _page_value(key, value, ids) for key, value in attributes.items()}
    for key in _SIZES:
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", label)
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)


def _local_name(name: str) -> str:
    return name.rpartition("}")[2]


def _remove_file_parts(element: ET.Element) -> None:
    """Remove what is for files of their own; the style sheet would apply to the whole page."""
    for child in list(element):
        if _local_name(child.tag) in ("metadata", "style"):
            element.remove(child)
        else:
            _remove_file_parts(child)
    if element.text is not None and not element.text.strip():
        element.text = None
    if element.tail is not None:
        element.tail = "\n"


def _page_value(key: str, value: str, ids: dict[str, str]) -> str:
    if key == "id":
        return ids[value]
    if key in ("href", "clip-path"):
        return re.sub(r"#([^)]+)", lambda match: "#" + ids[match[1]], value)
    if key == "style":
        return re.sub(r"#0101[0-9a-f]{2}", lambda match: _VARIABLES[match[0]], value)
    if key in _NUMBERS:
        rounded = re.sub(r"-?\d+\.\d+", lambda match: _short(match[0]), value)
        spaced = " ".join(rounded.split())
        # A line to where it starts draws a round cap: a point of a scatter in half the characters.
        return re.sub(r"M (\S+) (\S+) L \1 \2(?= |$)", r"M\1 \2h0", spaced)
    return value


def _short(number: str) -> str:
    return f"{float(number):.2f}".rstrip("0").rstrip(".")
