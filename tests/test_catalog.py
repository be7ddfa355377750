"""What core says our distributions offer is what they offer."""

from __future__ import annotations

from sentbed._registry.distribution_catalog import catalog
from sentbed._registry.registry import load_plugins


def test_core_names_the_owner_of_all_that_is_ours() -> None:
    plugins = load_plugins()
    found: dict[str, dict[str, set[str]]] = {name: {} for name in catalog()}
    offered = [
        (info.distribution, "components", f"{kind}/{name}")
        for (kind, name), info in plugins.components.items()
    ]
    offered += [
        (offer.distribution, "commands", name)
        for name, offer in plugins.commands.items()
    ]
    offered += [
        (offer.distribution, "tables", name) for name, offer in plugins.tables.items()
    ]
    for owner, what, name in offered:
        if owner in found:
            found[owner].setdefault(what, set()).add(name)
    assert {
        owner: {what: set(names) for what, names in offers.items()}
        for owner, offers in catalog().items()
    } == found


def test_no_plugin_of_ours_is_broken() -> None:
    plugins = load_plugins().plugins
    assert {plugin.distribution for plugin in plugins} >= set(catalog())
    assert [plugin for plugin in plugins if plugin.problem] == []
