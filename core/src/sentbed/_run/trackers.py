"""Trackers and plugins that follow a run through lifecycle hooks.

A tracker or plugin whose hook raises an error is not called again; the run goes on. It ends if the tracker is
`required`, or if the error is a `SentbedError` at the start of the run.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pluggy

from sentbed import hookspecs
from sentbed._component_names import full_name
from sentbed._registry.offers import failure
from sentbed._registry.registry import LIFECYCLE_HOOKS, Plugins
from sentbed._run.context import RunContext
from sentbed._run.history import History
from sentbed.errors import PluginError, SentbedError, suggest
from sentbed.protocols import ReportSection

RETURNS: Mapping[str, Any] = {
    "run_started": Mapping,
    "run_resumed": Mapping,
    "tracker_state": tuple,
    "report_sections": Sequence,
    "write_report": Path,
}
"""Type that the result of a hook must have unless it is None. The other hooks return nothing."""


@contextmanager
def following(
    context: RunContext,
    plugins: Plugins,
    history: History,
) -> Iterator[None]:
    """Let plugins, the history and the trackers of a recipe follow a run in a `with` block.

    Raises:
        PluginError: if the object that a tracker builds cannot follow a run.
    """
    manager = plugins.manager
    names: dict[str | None, str] = {}
    with ExitStack() as stack:
        manager.register(history)
        stack.callback(manager.unregister, history)
        for tracker in context.recipe.tracker:
            listener = tracker.build()
            for fault in hook_faults(listener):
                raise PluginError(
                    f"{full_name(tracker)} built {listener!r:.80}, which cannot follow a run: {fault}"
                )
            name = manager.register(listener)
            stack.callback(manager.unregister, listener)
            names[name] = full_name(tracker)

        context.hooks = _Hooks(manager, history, names, context.warn)
        yield


def hook_faults(listener: object) -> Iterator[str]:
    """Yield reasons why an object that a tracker has built cannot follow a run."""
    manager = pluggy.PluginManager("sentbed")
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(listener)
    except pluggy.PluginValidationError as error:
        # A hook does not have an argument that its implementation asks for.
        yield str(error)
        return

    callers = manager.get_hookcallers(listener) or []
    if not callers:
        yield "it implements no hook; decorate methods with `@sentbed.hookimpl`"
    for caller in callers:
        if caller.name not in LIFECYCLE_HOOKS:
            yield f"there is no hook `{caller.name}` of a run.{suggest(caller.name, LIFECYCLE_HOOKS)}"


@attrs.define(eq=False)
class _Hooks:
    """Calls the lifecycle hooks of a run: `hooks.stage_started(run=run, ...)` returns all results but None.

    A plugin whose hook fails is not called again. Errors of the history are raised, since a run without its
    history is not complete.
    """

    manager: pluggy.PluginManager
    history: History
    names: Mapping[str | None, str]
    """Names of trackers in messages, by their names in the plugin manager."""
    warn: Callable[[str], None]
    _failed: set[str] = attrs.field(factory=set, init=False)
    """Names of the plugins that are not called any more."""

    def __getattr__(self, hook: str) -> Callable[..., list[Any]]:
        return partial(self._call, hook)

    def _call(self, hook: str, **arguments: Any) -> list[Any]:
        results = []
        # The last implementation is called first, as pluggy does.
        for implementation in reversed(
            getattr(self.manager.hook, hook).get_hookimpls()
        ):
            if implementation.plugin_name in self._failed:
                continue
            values = [arguments[name] for name in implementation.argnames]
            try:
                result = _checked(hook, implementation.function(*values))
            except (Exception, SystemExit) as error:
                if implementation.plugin is self.history:
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
        error: BaseException,
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
        self._failed.add(name)
        self.warn(f"{message}; the run goes on without it")


def _checked(hook: str, result: Any) -> Any:
    """Return the result of a hook. Raises `TypeError` or `ValueError` if the run cannot use it."""
    if inspect.isgenerator(result):
        raise TypeError("a hook of a run can be no wrapper")
    if result is None or hook not in RETURNS:
        return result
    if not isinstance(result, RETURNS[hook]):
        raise TypeError(
            f"it returned {result!r:.80}, expected `{RETURNS[hook].__name__}`"
        )
    if hook == "report_sections" and not all(
        isinstance(section, ReportSection) for section in result
    ):
        raise TypeError(f"it returned {result!r:.80}, expected several `ReportSection`")
    if hook == "tracker_state":
        # Fails here, in the tracker's hook, so that a state that is no JSON does not end the run when it is
        # written.
        name, state = result
        json.dumps({name: state})
    return result
