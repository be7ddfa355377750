"""`requires`: the distributions that a recipe needs, with their versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version


def unmet_requirements(requires: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each distribution that is missing or has another version, and what to do.

    `requires` has versions for each name, as pip reads them: `">=0.2"`, `">=0.2,<1"`, or `""` for any.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    for name, written in requires.items():
        try:
            specifier = SpecifierSet(written)
        except InvalidSpecifier:
            yield (
                name,
                f"found the versions {written!r}, expected such as `>=0.2` or `>=0.2,<1`",
            )
            continue
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", name):
            yield (
                name,
                f"{name!r} is no name of a distribution; write one such as `sentbed-losses`",
            )
            continue
        requirement = f"{name}{specifier}"
        remedy = f"`pip install '{requirement}'`"
        try:
            installed = version(name)
        except PackageNotFoundError:
            yield (
                name,
                f"the recipe needs {requirement}, which is not installed; {remedy}",
            )
            continue
        if not specifier.contains(installed, prereleases=True):
            yield (
                name,
                f"the recipe needs {requirement}, and {installed} is installed; {remedy}",
            )
