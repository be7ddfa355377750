"""Catalog of this project's distributions, installed or not, and what each offers.

With it, messages can say which distribution to install; see `distribution_catalog.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal


@cache
def catalog() -> Mapping[str, Mapping[str, list[str]]]:
    """Return distribution -> its `components` (`KIND/NAME`), `commands` and `tables`, if any."""
    import tomli

    file = Path(__file__).with_name("distribution_catalog.toml")
    return tomli.loads(file.read_text("utf-8"))


def owner_of(
    what: Literal["components", "commands", "tables"], name: str
) -> str | None:
    """Return the distribution of this project that offers something, or None if none does."""
    for owner, offers in catalog().items():
        if name in offers.get(what, ()):
            return owner
    return None
