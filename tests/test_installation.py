"""What distributions declare, what uv and pip install, and what pages and messages say to install agree."""

from __future__ import annotations

import ast
import re
import sys

import pytest
from blocks import pages
from distributions import DIRECTORIES, EXTRAS, PROJECTS, ROOT, WORKSPACE, project
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def lines_of(name):
    """Return the lines of a file in `requirements/`, without comments."""
    lines = (ROOT / "requirements" / name).read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


# --- uv and pip -------------------------------------------------------------------------------------------


def test_uv_and_pip_have_the_same_constraints():
    assert WORKSPACE["tool"]["uv"]["constraint-dependencies"] == lines_of(
        "constraints.txt"
    )


def by_name(line):
    """Return a line of a requirements file with a distribution's name in place of its directory."""
    if not line.startswith("-e ./"):
        return line
    directory, bracket, extras = line.removeprefix("-e ./").partition("[")
    return project(ROOT / directory)["name"] + bracket + extras


def test_the_group_dev_of_uv_is_what_pip_installs_for_developers():
    including, *requirements = WORKSPACE["dependency-groups"]["dev"]

    assert including == {"include-group": "demo"}

    first, *lines = lines_of("dev.txt")

    assert first == "-r demo.txt"
    assert requirements == [by_name(line) for line in lines]


# --- declared dependencies --------------------------------------------------------------------------------

DISTRIBUTION_OF = {
    "mlflow": "mlflow-skinny",
    "sklearn": "scikit-learn",
}
"""Packages that are not named after their distribution."""


def imported_names(statement):
    """Return the packages that a statement imports; none for a relative import."""
    if isinstance(statement, ast.Import):
        return [alias.name.partition(".")[0] for alias in statement.names]
    if statement.level or statement.module is None:
        return []
    return [statement.module.partition(".")[0]]


def imports_of(node):
    """Yield the packages that a module imports at any depth, but for those of `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield from imported_names(child)
        else:
            yield from imports_of(child)


@pytest.mark.parametrize("name", PROJECTS)
def test_a_distribution_declares_what_it_imports(name):
    about = project(PROJECTS[name])
    requirements = list(about["dependencies"])
    if name != "sentbed":
        # The extras of core are the plugins, which core does not import.
        for lines in about.get("optional-dependencies", {}).values():
            requirements += lines
    declared = {name} | {
        canonicalize_name(Requirement(line).name) for line in requirements
    }

    imported = set()
    modules = sorted(PROJECTS[name].glob("src/**/*.py"))

    assert modules

    for module in modules:
        imported.update(imports_of(ast.parse(module.read_text("utf-8"))))
    imported -= sys.stdlib_module_names

    needed = {
        canonicalize_name(DISTRIBUTION_OF.get(package, package)) for package in imported
    }

    assert needed - declared == set()


# --- what users are told to install -----------------------------------------------------------------------

NAMED_WITH_EXTRAS = re.compile(
    r"(?<![\w/.-])(?:\./)?"
    r"(?P<name>sentbed(?:-[a-z]+)?|core|plugins/[a-z]+)"
    r"\[(?P<extras>[a-z0-9][a-z0-9,-]*)\]"
)
"""A distribution or its directory, with extras: `sentbed-data[hub]`, `plugins/interop[hub,onnx]`."""


OF_THE_READER = {"sentbed-largest": {"test"}}
"""Distributions that a reader of the pages writes."""


def wrong_extras(text):
    """Return the extras that a text names and that no distribution has."""
    wrong = []
    for named, extras in NAMED_WITH_EXTRAS.findall(text):
        name = {"core": "sentbed"}.get(named, named.replace("plugins/", "sentbed-"))
        offered = EXTRAS.get(name) or OF_THE_READER.get(name, set())
        wrong += [
            f"{named}[{extra}]" for extra in extras.split(",") if extra not in offered
        ]
    return wrong


def texts():
    """Return the pages, the code and the recipes, which tell users what to install."""
    code = [
        module
        for directory in DIRECTORIES
        for module in sorted(directory.glob("src/**/*.py"))
    ]
    return [
        *pages(),
        *code,
        *sorted(ROOT.glob("recipes/**/*.toml")),
        ROOT / "pyproject.toml",
    ]


def test_every_extra_that_a_page_a_message_or_a_recipe_names_exists():
    mentions = 0
    for path in texts():
        text = path.read_text("utf-8")
        mentions += len(NAMED_WITH_EXTRAS.findall(text))
        assert wrong_extras(text) == [], path
    assert mentions > 30


def local_dependencies(name):
    """Return the distributions of this project that one of them needs, itself included."""
    needed = {name}
    for line in project(PROJECTS[name])["dependencies"]:
        dependency = Requirement(line).name
        if dependency in PROJECTS:
            needed |= local_dependencies(dependency)
    return needed


def installed_by(line):
    """Return the distributions that a line with `pip install` takes from directories."""
    directories = re.findall(r"(?<![\w/])(?:\./)?(core|plugins/[a-z]+)\b", line)
    return {project(ROOT / directory)["name"] for directory in directories}


def installations():
    """Return the lines of the pages that install core from its directory, and the page of each."""
    lines = {}
    for page in pages():
        for line in re.findall(
            r"pip install[^`\n]* (?:\./)?core\b[^`\n]*", page.read_text("utf-8")
        ):
            lines[line] = page.relative_to(ROOT).as_posix()
    return lines


@pytest.mark.parametrize("line", installations())
def test_what_is_installed_into_a_new_environment_has_all_distributions_that_it_needs(
    line,
):
    """They are in no index: pip fails where one is missing."""
    installed = installed_by(line)

    assert "sentbed" in installed

    needed = set()
    for name in installed:
        needed |= local_dependencies(name)

    assert needed - installed == set()


CLASSIFIER = "Programming Language :: Python :: "


def test_every_distribution_is_for_the_same_python():
    requirements = {project(directory)["requires-python"] for directory in DIRECTORIES}
    classifiers = {
        tuple(project(directory)["classifiers"]) for directory in DIRECTORIES
    }

    assert len(requirements) == len(classifiers) == 1

    versions = [
        line.removeprefix(CLASSIFIER)
        for line in classifiers.pop()
        if line.startswith(CLASSIFIER)
    ]

    assert requirements == {f">={versions[0]}"}

    page = (ROOT / "docs" / "howto" / "install.md").read_text("utf-8")

    assert f"Python {', '.join(versions[:-1])} and {versions[-1]}" in page
