"""Releases of the plugins behind components, which decide vectors as much as their fields."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed.protocols import Component
from sentbed.tools import Plugins


def component_releases(
    components: Mapping[str, Component], plugins: Plugins
) -> dict[str, str]:
    """Return the release of the plugin that each component comes from, as `NAME VERSION`."""
    releases = {}
    for part, component in components.items():
        info = plugins.origin(type(component))
        if info is not None:
            releases[part] = info.release
    return releases
