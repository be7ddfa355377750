"""The documentation says what the code says."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys

import pytest
from blocks import ROOT, pages
from sentbed import hookspecs
from sentbed._registry.registry import load_plugins
from sentbed.kinds import KINDS

sys.path.insert(0, str(ROOT / "tools"))
import docs_pages

HOOKS = {
    name: value
    for name, value in vars(hookspecs).items()
    if inspect.isfunction(value) and value.__module__ == hookspecs.__name__
}


def test_every_hook_is_documented_with_its_signature_and_text():
    text = (ROOT / "docs" / "hooks.md").read_text()
    documented = re.findall(
        r"^## (\w+)\n\n```python\n(.+)\n```\n\n(.+)$", text, re.MULTILINE
    )
    signatures = [
        (
            name,
            f"{name}{inspect.signature(hook)}".replace("'", ""),
            (inspect.getdoc(hook) or "").split("\n")[0],
        )
        for name, hook in HOOKS.items()
    ]

    assert len(signatures) > 10
    assert documented == signatures


def installed_components():
    """Return the offers of all installed components."""
    plugins = load_plugins()
    return [plugins.find(kind, name) for kind in KINDS for name in plugins.names(kind)]


@pytest.mark.parametrize(
    "page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_every_link_within_the_project_leads_to_a_file_of_a_clone(page):
    """Pages that only the site has, such as those of the reference, are no targets: many read a clone."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]

    assert missing == []


# --- the site ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site, and what building it has printed."""
    site = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "default",
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--site-dir",
            str(site),
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return site, done.stdout


@pytest.mark.slow
def test_the_site_builds_without_a_warning(built):
    lines = built[1].splitlines()
    assert [line for line in lines if not line.startswith("INFO ")] == []
    assert any("Documentation built" in line for line in lines)


@pytest.mark.slow
def test_every_hook_and_every_component_has_a_page(built):
    plugins = load_plugins()
    assert len(installed_components()) > 50
    assert docs_pages.missing(built[0], plugins) == []


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(built):
    texts = [path.read_text() for path in built[0].rglob("*.html")]

    assert len(texts) > 100

    loaded = [
        tag
        for text in texts
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", text)
    ]
    # Where a page is, is said with an address; it is not loaded.
    assert [
        tag
        for tag in loaded
        if re.search(r"(?:src|href)=.?(?:https?:)?//", tag) and "canonical" not in tag
    ] == []
