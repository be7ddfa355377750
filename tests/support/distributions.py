"""The distributions of this repository, as their project files declare them."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DIRECTORIES = [
    ROOT / "core",
    *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml")),
]


def project_file(directory):
    """Read the project file of a distribution, or of the workspace."""
    return tomllib.loads((directory / "pyproject.toml").read_text("utf-8"))


def project(directory):
    """The table `[project]` of a distribution."""
    return project_file(directory)["project"]


WORKSPACE = project_file(ROOT)
PROJECTS = {project(directory)["name"]: directory for directory in DIRECTORIES}
EXTRAS = {
    name: set(project(directory).get("optional-dependencies", {}))
    for name, directory in PROJECTS.items()
}
