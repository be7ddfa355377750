"""Releases of the plugins that components come from; like the components' fields, they determine the vectors."""

from __future__ import annotations

from sentbed.protocols import EncoderRecipe, Runtime
from sentbed.tools import Plugins, parts_in


def component_releases(
    recipe: EncoderRecipe,
    runtime: Runtime,
    plugins: Plugins,
) -> dict[str, str]:
    """Return path of a component -> release of its plugin, as `NAME VERSION`.

    The components are backbone, pooler and runtime. Components within other components are included, with paths
    such as `pooler.inner`. A component that no plugin offers is left out.
    """
    components = {
        "backbone": recipe.backbone,
        "pooler": recipe.pooler,
        "runtime": runtime,
    }
    releases = {}
    for path, component in parts_in(components):
        info = plugins.origin(type(component))
        if info is not None:
            releases[".".join(map(str, path))] = info.release
    return releases
