"""The lowest versions of dependencies that the distributions declare, as constraints for pip.

    python tools/lowest_versions.py [--leave NAME ...] > constraints.txt

Of several bounds of one name the highest counts, since all distributions are installed together.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
OURS = "sentbed"


def requirements() -> Iterator[Requirement]:
    """Yield what the distributions require of others, with and without their extras."""
    files = [ROOT / "core" / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]
    for file in files:
        project = tomllib.loads(file.read_text("utf-8"))["project"]
        extras = project.get("optional-dependencies", {})
        for lines in (project["dependencies"], *extras.values()):
            yield from map(Requirement, lines)


def lowest_versions(required: Iterable[Requirement]) -> dict[str, Version]:
    """Return the lowest version of each name that all requirements allow, by name.

    Raises:
        ValueError: if a requirement has no lower bound.
    """
    versions: dict[str, Version] = {}
    for requirement in required:
        name = canonicalize_name(requirement.name)
        if name.startswith(OURS):
            continue
        bound = _lower_bound(requirement)
        versions[name] = max(bound, versions.get(name, bound))
    return versions


def _lower_bound(requirement: Requirement) -> Version:
    for part in requirement.specifier:
        if part.operator in (">=", "=="):
            return Version(part.version)
    raise ValueError(
        f"`{requirement}` has no lower bound; declare the lowest version that works, such as `>=1.2`"
    )


def main() -> None:
    """Print the constraints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--leave", nargs="*", default=[], help="names without a constraint"
    )
    left_out = {canonicalize_name(name) for name in parser.parse_args().leave}
    versions = lowest_versions(requirements())
    for name in sorted(versions.keys() - left_out):
        print(f"{name}=={versions[name]}")


if __name__ == "__main__":
    main()
