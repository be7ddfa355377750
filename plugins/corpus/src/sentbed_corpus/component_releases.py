"""Releases of the plugins of components: like the components' fields, they determine the vectors."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed.protocols import Component
from sentbed.tools import Plugins, parts_in


def component_releases(
    components: Mapping[str, Component], plugins: Plugins
) -> dict[str, str]:
    """Return the release of the plugin that each component comes from, as `NAME VERSION`.

    A component within another has its path as key, such as `pooler.inner`.
    """
    releases = {}
    for path, component in parts_in(components):
        info = plugins.origin(type(component))
        if info is not None:
            releases[".".join(map(str, path))] = info.release
    return releases
