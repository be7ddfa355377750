"""The site's reference: a page a component and a hook, the recipe, the command line, protocols, Python."""

from __future__ import annotations

import inspect
import re
from typing import Any

import sentbed
import sentbed_common
from docs_code import cli, module_page, public_names
from docs_markdown import cell, fields, first_line, page, prose, signature, table
from sentbed import helpers, hookspecs, protocols, tools
from sentbed.kinds import KINDS
from sentbed.protocols import Recipe
from sentbed.tools import Offer, Plugins
from sentbed_workbench.component_docs import example as example_of
from sentbed_workbench.component_docs import property_lines, tables


def reference(plugins: Plugins, hooks_page: str) -> dict[str, str]:
    """Return every page of the reference by its path; `hooks_page` has the prose of the hooks."""
    pages = {
        "reference/index.md": _front(plugins),
        "reference/recipe.md": _recipe(plugins),
        "reference/cli.md": cli(),
        "reference/protocols.md": module_page(
            "Protocols",
            "What the parts promise each other, in `sentbed.protocols`.",
            protocols,
            public_names(protocols),
        ),
        "reference/python.md": module_page(
            "Python",
            "What `import sentbed` gives, beside `__version__`.",
            sentbed,
            public_names(sentbed),
        ),
        "reference/helpers.md": module_page(
            "Helpers",
            "What components may import from `sentbed.helpers`.",
            helpers,
            public_names(helpers),
        ),
        "reference/common.md": module_page(
            "Shared",
            "What plugins may import from `sentbed_common`, of the distribution `sentbed-common`.",
            sentbed_common,
            public_names(sentbed_common),
        ),
        "reference/tools.md": module_page(
            "Tools",
            "What commands and other tools may import from `sentbed.tools`.",
            tools,
            public_names(tools),
        ),
        "reference/hooks/index.md": _hooks_index(),
    }
    for name, hook in hooks().items():
        pages[f"reference/hooks/{name}.md"] = _hook(name, hook, hooks_page, plugins)
    for kind in KINDS:
        pages[f"reference/{kind}/index.md"] = _kind(kind, plugins)
        for name in plugins.names(kind):
            offer = plugins.find(kind, name)
            pages[f"reference/{kind}/{name}.md"] = component(offer)
    return pages


def hooks() -> dict[str, Any]:
    """Return the hooks by name, in the order of a run."""
    return {
        name: hook
        for name, hook in vars(hookspecs).items()
        if hasattr(hook, "sentbed_spec")
    }


def component(offer: Offer) -> str:
    """Return the page of a component: its docstring, its properties, its fields and an example."""
    kind = f"[{offer.kind}](index.md)"
    parts = [
        f"# {offer.name}",
        f"{kind} of `{offer.distribution}` {offer.version}, class `{offer.load().__qualname__}`",
    ]
    parts += [
        prose(inspect.getdoc(offer.load()) or ""),
        *_properties(offer),
        *fields(offer.load(), "##"),
    ]
    language = "console" if KINDS[offer.kind].on_command_line else "toml"
    sign = "$ " if language == "console" else ""
    parts += [
        "## Example",
        f"```{language}\n{sign}{example_of(offer)}\n```",
        f"`sentbed show {offer.kind} {offer.name}`",
    ]
    return page(parts)


def _properties(offer: Offer) -> list[str]:
    return ["\n".join(f"- {line}" for line in property_lines(offer))]


def _front(plugins: Plugins) -> str:
    rows = (
        [
            f"[{kind}]({kind}/index.md)",
            ", ".join(f"[{name}]({kind}/{name}.md)" for name in plugins.names(kind)),
        ]
        for kind in KINDS
    )
    return page(
        [
            "# Reference",
            "Made of the docstrings of what is installed: `sentbed show KIND NAME` prints the same.",
            table(["kind", "components"], rows),
            "- [Recipe](recipe.md): the tables that are no components\n"
            "- [Command line](cli.md)\n"
            "- [Hooks](hooks/index.md): what a plugin implements\n"
            "- [Protocols](protocols.md): what its classes promise\n"
            "- [Helpers](helpers.md): `sentbed.helpers`, for components\n"
            "- [Shared](common.md): `sentbed_common`, for plugins that offer data sets\n"
            "- [Tools](tools.md): `sentbed.tools`, for commands and other tools\n"
            "- [Python](python.md): `import sentbed`",
        ]
    )


def _kind(kind: str, plugins: Plugins) -> str:
    offers = [plugins.find(kind, name) for name in plugins.names(kind)]
    rows = []
    for offer in offers:
        summary = cell(first_line(offer.load()))
        link = f"[{offer.name}]({offer.name}.md)"
        rows.append([link, summary, f"`{offer.distribution}`"])
    protocol, hook = KINDS[kind].base.__name__, KINDS[kind].hook
    components = "None is installed."
    if offers:
        components = table(["name", "what it is", "distribution"], iter(rows))
    return page(
        [
            f"# {kind}",
            f"Offered by the hook [{hook}](../hooks/{hook}.md), as classes that inherit from "
            f"[{protocol}](../protocols.md#{protocol.lower()}).",
            components,
        ]
    )


def _hooks_index() -> str:
    rows = []
    for name, hook in hooks().items():
        rows.append([f"[{name}]({name}.md)", cell(first_line(hook))])
    return page(
        [
            "# Hooks",
            prose(inspect.getdoc(hookspecs) or ""),
            table(["hook", "what it is for"], rows),
        ]
    )


def _hook(name: str, hook: Any, hooks_page: str, plugins: Plugins) -> str:
    section = re.search(
        rf"^## {name}\n(.*?)(?=^##? |\Z)", hooks_page, re.DOTALL | re.MULTILINE
    )
    # The prose has the docstring's first line too, and says more than the rest of it.
    body = (
        section[1].partition("\n```\n")[2].strip()
        if section
        else prose(inspect.getdoc(hook) or "")
    )
    body = re.sub(r"\]\((?=[\w/-]+\.md)", "](../../", body)
    parts = [f"# {name}", f"```python\n{signature(name, hook)}\n```", body]
    kind = next((kind for kind in KINDS.values() if kind.hook == name), None)
    if kind:
        names = (
            ", ".join(
                f"[{part}](../{kind.name}/{part}.md)"
                for part in plugins.names(kind.name)
            )
            or "none"
        )
        protocol = kind.base.__name__
        parts.append(
            f"Base class: [{protocol}](../protocols.md#{protocol.lower()}). Installed: {names}."
        )
    return page(parts)


def _recipe(plugins: Plugins) -> str:
    parts = [
        "# Recipe",
        "The tables of a recipe. `sentbed show TABLE` prints one.",
    ]
    classes: dict[str, type[Any]] = {"The whole": Recipe, **tables(plugins)}
    for name, cls in classes.items():
        parts += [
            f"## {name}",
            prose(inspect.getdoc(cls) or ""),
            *fields(cls),
        ]
    return page(parts)
