"""What core says our distributions offer is what they offer."""

from __future__ import annotations

from sentbed._registry.registry import OURS, load_plugins


def test_core_names_the_owner_of_every_component_of_ours() -> None:
    found: dict[str, set[str]] = {}
    for (kind, name), info in load_plugins().components.items():
        found.setdefault(info.distribution, set()).add(f"{kind}/{name}")
    assert {owner: set(parts) for owner, parts in OURS.items()} == {
        owner: parts for owner, parts in found.items() if owner in OURS
    }


def test_no_plugin_of_ours_is_broken() -> None:
    plugins = load_plugins().plugins
    assert {plugin.distribution for plugin in plugins} >= set(OURS) | {"sentbed"}
    assert [plugin for plugin in plugins if plugin.problem] == []
