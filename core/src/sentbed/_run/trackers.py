"""Trackers and plugins that follow a run through lifecycle hooks.

A tracker or plugin whose hook raises an error, or returns what the hook does not take, is not called again; the
run goes on. It ends if the tracker is `required`, or if the error is a `SentbedError` at the start of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pluggy

from sentbed._component_names import full_name
from sentbed._recipe.component_notes import naming_components
from sentbed._registry.offers import failure
from sentbed._run.context import RunContext
from sentbed.errors import PluginError, SentbedError
from sentbed.protocols import ReportSection


@contextmanager
def following(context: RunContext) -> Iterator[None]:
    """Let plugins, the history and the trackers of the recipe follow a run in a `with` block."""
    manager = context.plugins.manager
    hooks = _Hooks(context)
    with ExitStack() as stack:
        manager.register(context.history)
        stack.callback(manager.unregister, context.history)
        for tracker in context.recipe.tracker:
            with naming_components(context.recipe):
                listener = tracker.build()
            name = manager.register(listener)
            stack.callback(manager.unregister, listener)
            hooks.names[name] = full_name(tracker)

        context.hooks = hooks
        yield


@attrs.define(eq=False)
class _Hooks:
    """Calls the lifecycle hooks of a run: `hooks.stage_started(run=run, ...)` returns all results but None.

    A plugin whose hook fails is not called again. Errors of the history are raised, since a run without its
    history is not complete.
    """

    context: RunContext
    names: dict[str | None, str] = attrs.field(factory=dict, init=False)
    """Names of trackers in messages, by their names in the plugin manager."""
    failed: set[str] = attrs.field(factory=set, init=False)
    """Names of the plugins that are not called any more."""

    def __getattr__(self, hook: str) -> Callable[..., list[Any]]:
        return partial(self._call, hook)

    def _call(self, hook: str, **arguments: Any) -> list[Any]:
        caller = getattr(self.context.plugins.manager.hook, hook)
        results = []
        # The last implementation is called first, as pluggy does.
        for implementation in reversed(caller.get_hookimpls()):
            if implementation.plugin_name in self.failed:
                continue
            values = [arguments[name] for name in implementation.argnames]
            try:
                result = implementation.function(*values)
                _require_result(hook, result)
            except (Exception, SystemExit) as error:
                if implementation.plugin is self.context.history:
                    raise
                self._give_up(hook, implementation, error)
                continue
            if result is not None:
                results.append(result)
        return results

    def _give_up(
        self,
        hook: str,
        implementation: pluggy.HookImpl,
        error: Exception | SystemExit,
    ) -> None:
        """Warn that a plugin failed, and call it no more. Raise an error if the run cannot go on without it."""
        required = getattr(implementation.plugin, "required", False) is True
        # A tracker that cannot work may raise such an error on purpose, before anything is computed.
        is_at_start = hook in ("run_started", "run_resumed")
        if isinstance(error, SentbedError) and (required or is_at_start):
            raise error

        name = implementation.plugin_name
        owner = self.names.get(name, f"the plugin `{name}`")
        message = f"{owner} failed in `{hook}`: {failure(error)}"
        if required:
            raise PluginError(f"{message}; the run needs it") from error
        self.failed.add(name)
        self.context.warn(f"{message}; the run goes on without it")


def _require_result(hook: str, result: Any) -> None:
    """Raise `TypeError` if what an implementation of a hook has returned is not what the hook takes."""
    if result is None:
        return
    if hook in ("run_started", "run_resumed"):
        expected = "a mapping of facts"
        fits = isinstance(result, Mapping)
    elif hook == "tracker_state":
        expected = "a tuple of a name and a mapping"
        fits = isinstance(result, tuple) and len(result) == 2
        fits = fits and isinstance(result[1], Mapping)
    elif hook == "report_sections":
        expected = "a sequence of `ReportSection`"
        fits = isinstance(result, Sequence)
        fits = fits and all(isinstance(section, ReportSection) for section in result)
    elif hook == "write_report":
        expected = "the path of a file"
        fits = isinstance(result, Path)
    else:
        return
    if not fits:
        raise TypeError(f"it returned {result!r:.80}, expected {expected}")
