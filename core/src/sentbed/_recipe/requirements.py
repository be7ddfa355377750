"""The recipe key `requires`: distributions that must be installed to run the recipe, and their versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version


def unmet_requirements(requires: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each distribution that is missing or has another version, and a message.

    `requires` has the versions of each distribution as pip writes them: `">=0.2"`, `">=0.2,<1"`, or `""` for any.
    """
    for name, versions in requires.items():
        message = _unmet(name, versions)
        if message is not None:
            yield name, message


def _unmet(name: str, versions: str) -> str | None:
    """Return a message if a distribution is not installed in one of these versions; else None."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        specifier = SpecifierSet(versions)
    except InvalidSpecifier:
        return (
            f"found the versions {versions!r}, expected such as `>=0.2` or `>=0.2,<1`"
        )
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?", name):
        return (
            f"{name!r} is no name of a distribution; write one such as `sentbed-losses`"
        )
    requirement = f"{name}{specifier}"
    remedy = f"`pip install '{requirement}'`"
    try:
        installed = version(name)
    except PackageNotFoundError:
        return f"the recipe needs {requirement}, which is not installed; {remedy}"
    if not specifier.contains(installed, prereleases=True):
        return f"the recipe needs {requirement}, and {installed} is installed; {remedy}"
    return None
