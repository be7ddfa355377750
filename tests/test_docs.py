"""The documentation says what the code says."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys

import attrs
import click
import pytest
import sentbed
from blocks import ROOT, pages
from sentbed import hookspecs
from sentbed._registry.registry import load_plugins
from sentbed.kinds import KINDS
from sentbed_workbench.component_docs import describe

sys.path.insert(0, str(ROOT / "tools"))
import docs_pages
import docs_reference

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


def test_the_pooler_of_the_documentation_works(tmp_path):
    import torch
    from sentbed.protocols import TokenStates

    text = (ROOT / "docs" / "plugins" / "writing.md").read_text()
    (code,) = re.findall(r'```python\n("""max_pooler.+?)```', text, re.DOTALL)
    module = {"__name__": "max_pooler"}
    exec(code, module)
    (pooler,) = module["poolers"]()
    states = torch.tensor([[[1.0, -5.0], [0.0, -1.0], [9.0, 9.0]]])
    mask = torch.tensor([[1, 1, 0]])
    pooled = pooler().build(2)(TokenStates(states, mask))
    assert pooled.tolist() == [[1.0, -1.0]]


def installed_components():
    """Return the offers of all installed components."""
    plugins = load_plugins()
    return [plugins.find(kind, name) for kind in KINDS for name in plugins.names(kind)]


@pytest.mark.parametrize(
    "offer", installed_components(), ids=lambda offer: f"{offer.kind}-{offer.name}"
)
def test_every_field_of_every_component_is_documented(offer):
    text = describe(offer)
    for field in attrs.fields(offer.load()):
        if field.metadata.get("skip"):
            continue  # no key of a recipe
        key = field.metadata.get("key", field.name)
        _, heading, after = text.partition(f"\n  {key}: ")
        assert heading, f"{key} is not shown"
        assert after.split("\n")[1].startswith("      "), f"{key} has no meaning"


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
def test_every_command_and_option_is_in_the_reference(built):
    from sentbed._cli.main import main

    text = docs_pages.generated()["reference/cli.md"]
    context = click.Context(main)
    names = main.list_commands(context)
    assert {"run", "study", "encode"} <= set(names)
    for name in names:
        command = main.get_command(context, name)
        assert command is not None
        _, heading, section = text.partition(f"\n## sentbed {name}\n")
        assert heading, name
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert max(parameter.opts, key=len) in section.partition("\n## ")[0], (
                    f"{name} {parameter.name}"
                )


def test_all_that_is_public_is_in_the_reference():
    from sentbed import helpers, protocols, tools

    texts = docs_pages.generated()
    public = {
        "python": sentbed,
        "protocols": protocols,
        "helpers": helpers,
        "tools": tools,
    }
    for page, names in {
        page: docs_reference.public_names(module) for page, module in public.items()
    }.items():
        assert [
            name
            for name in names
            if f"\n## {name}\n" not in texts[f"reference/{page}.md"]
        ] == []


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
