"""Catalog of this project's distributions and what each offers; see `distribution_catalog.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal


@cache
def catalog() -> Mapping[str, Mapping[str, list[str]]]:
    """Return a mapping of distribution -> its `components` (`KIND/NAME`), `commands` and `tables`, if any."""
    import tomli

    return tomli.loads(
        Path(__file__).with_name("distribution_catalog.toml").read_text("utf-8")
    )


def owner_of(
    what: Literal["components", "commands", "tables"], name: str
) -> str | None:
    """Return the distribution of this project that offers something, or None if none does."""
    return next(
        (owner for owner, offers in catalog().items() if name in offers.get(what, ())),
        None,
    )
