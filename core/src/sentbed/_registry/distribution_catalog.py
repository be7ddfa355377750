"""Catalog of what this project's distributions offer, installed or not.

It is in `distribution_catalog.toml`. With it, messages can say which distribution to install.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path


@cache
def catalog() -> Mapping[str, str]:
    """Return the distribution of each component, command and recipe table, by `KIND/NAME`."""
    import tomli

    file = Path(__file__).with_name("distribution_catalog.toml")
    return tomli.loads(file.read_text("utf-8"))


def owner_of(kind: str, name: str) -> str | None:
    """Return the distribution of this project that offers a component, command or recipe table, or None."""
    return catalog().get(f"{kind}/{name}")
