"""Hooks of sentbed-workbench: commands for authors of recipes and plugins, and the cache of vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy, VectorStore


@hookimpl
def commands() -> Mapping[str, Lazy]:
    """Return the commands of the workbench."""
    return {
        "show": Lazy(
            "sentbed_workbench.show_command:show",
            "Show a component: its fields, defaults and an example.",
        ),
        "evaluate": Lazy(
            "sentbed_workbench.evaluate_command:evaluate",
            "Evaluate an encoder on disk.",
        ),
        "cache": Lazy(
            "sentbed_workbench.cache_command:cache",
            "Show or remove the vectors that are cached on this machine.",
        ),
        "plan": Lazy(
            "sentbed_workbench.plan_command:plan",
            "Say what a recipe will take: memory and steps.",
        ),
        "doctor": Lazy(
            "sentbed_workbench.doctor_command:doctor",
            "List versions, devices, free memory and data.",
        ),
        "schema": Lazy(
            "sentbed_workbench.schema_command:schema",
            "Print a JSON Schema of recipes, for editors.",
        ),
        "diff": Lazy(
            "sentbed_workbench.diff_command:diff",
            "Say in which values two recipes differ.",
        ),
        "explain": Lazy(
            "sentbed_workbench.explain_command:explain",
            "Say which file each value of a recipe comes from.",
        ),
        "new": Lazy(
            "sentbed_workbench.new_command:new", "Start something from a template."
        ),
    }


@hookimpl
def vector_store(warn: Callable[[str], None]) -> VectorStore:
    """Return the cache of vectors on this machine."""
    from sentbed_workbench.vector_cache import VectorCache

    return VectorCache(say=warn)
