"""What core says our distributions offer is what they offer."""

from __future__ import annotations

import sys
from pathlib import Path

from sentbed.tools import load_plugins

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import catalog as catalog_tool


def test_the_catalogue_is_what_the_tool_writes():
    text = catalog_tool.CATALOG.read_text("utf-8")
    assert text == catalog_tool.catalog_text(), "run `python tools/catalog.py`"


def test_every_plugin_of_ours_is_loaded():
    plugins = load_plugins().plugins
    assert plugins
    assert [plugin for plugin in plugins if plugin.reason] == []
