"""Catalog of this project's distributions, installed or not, with the components and commands of each.

It is in `distribution_catalog.toml`. With it, messages can say which distribution to install.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal


@cache
def catalog() -> Mapping[str, Mapping[str, list[str]]]:
    """Return what each distribution offers: lists of `components` (as `KIND/NAME`), `commands` and `tables`."""
    import tomli

    file = Path(__file__).with_name("distribution_catalog.toml")
    return tomli.loads(file.read_text("utf-8"))


def owner_of(
    what: Literal["components", "commands", "tables"], name: str
) -> str | None:
    """Return the distribution of this project that offers a component, command or table, or None.

    A component is given as `KIND/NAME`.
    """
    for owner, offers in catalog().items():
        if name in offers.get(what, ()):
            return owner
    return None
