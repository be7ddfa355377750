"""What core says our distributions offer is what they offer."""

from __future__ import annotations

import sys
from pathlib import Path

from sentbed._registry.distribution_catalog import catalog
from sentbed._registry.registry import load_plugins

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import catalog as catalog_tool


def test_the_catalogue_is_what_the_tool_writes():
    text = catalog_tool.catalog_text(catalog_tool.installed_offers())

    assert catalog_tool.CATALOG.read_text("utf-8") == text, (
        "run `python tools/catalog.py`"
    )


def test_no_plugin_of_ours_is_broken():
    plugins = load_plugins().plugins
    assert {plugin.distribution for plugin in plugins} >= set(catalog())
    assert [plugin for plugin in plugins if plugin.problem] == []
