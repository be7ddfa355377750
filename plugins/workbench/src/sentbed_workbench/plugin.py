"""Hooks of sentbed-workbench: commands for authors of recipes and plugins, and the cache of vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sentbed import hookimpl
from sentbed.protocols import Run, VectorStore


@hookimpl
def commands() -> Mapping[str, str]:
    """Return the commands of the workbench."""
    return {
        "show": "sentbed_workbench.show_command:show",
        "evaluate": "sentbed_workbench.evaluate_command:evaluate",
        "cache": "sentbed_workbench.cache_command:cache",
        "plan": "sentbed_workbench.plan_command:plan",
        "doctor": "sentbed_workbench.doctor_command:doctor",
        "schema": "sentbed_workbench.schema_command:schema",
        "diff": "sentbed_workbench.diff_command:diff",
        "explain": "sentbed_workbench.explain_command:explain",
        "new": "sentbed_workbench.new_command:new",
    }


@hookimpl
def vector_store(run: Run, warn: Callable[[str], None]) -> VectorStore:
    """Return the cache of vectors on this machine."""
    from sentbed_common import hash_code

    from sentbed_workbench.vector_cache import VectorCache

    hash_code(run.recipe)
    return VectorCache(say=warn)
