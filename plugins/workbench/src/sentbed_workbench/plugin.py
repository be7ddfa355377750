"""Hooks of sentbed-workbench: commands for authors of recipes and plugins."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import LazyCommand

sentbed_api = "2.0"


@hookimpl
def commands() -> Mapping[str, LazyCommand]:
    """Return `show`, `evaluate`, `cache`, `plan`, `doctor`, `schema`, `diff`, `explain` and `new`."""
    return {
        "show": LazyCommand(
            "sentbed_workbench.show_command:show", "Show a component: its fields, defaults and an example."
        ),
        "evaluate": LazyCommand(
            "sentbed_workbench.evaluate_command:evaluate", "Evaluate an encoder on disk."
        ),
        "cache": LazyCommand(
            "sentbed_workbench.cache_command:cache", "Look at the vectors that are kept on this machine."
        ),
        "plan": LazyCommand(
            "sentbed_workbench.plan_command:plan", "Say what a recipe will take: memory, steps, time."
        ),
        "doctor": LazyCommand(
            "sentbed_workbench.doctor_command:doctor",
            "Say what this machine can run, and how to get what is missing.",
        ),
        "schema": LazyCommand(
            "sentbed_workbench.recipe_commands:schema", "Print a JSON Schema of recipes, for editors."
        ),
        "diff": LazyCommand(
            "sentbed_workbench.recipe_commands:diff", "Say in which values two recipes differ."
        ),
        "explain": LazyCommand(
            "sentbed_workbench.explain_command:explain", "Say which file each value of a recipe comes from."
        ),
        "new": LazyCommand("sentbed_workbench.new_command:new", "Start something from a template."),
    }
