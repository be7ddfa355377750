"""Trackers and plugins that follow a run through lifecycle hooks.

A tracker or plugin whose hook raises an error is not called again; the run goes on. It ends if the tracker is
`required`, or if the error is a `SentbedError` at the start of the run.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pluggy

from sentbed import hookspecs
from sentbed._component_faults import ADVICE, fault
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


def hook_faults(tracker: object) -> Iterator[tuple[str, str]]:
    """Yield reasons why an object that a tracker has built cannot follow a run, each with a remedy."""
    manager = pluggy.PluginManager("sentbed")
    hook_count = 0
    for name, method in inspect.getmembers(tracker, callable):
        options = manager.parse_hookimpl_opts(tracker, name)
        if options is None:
            if name in LIFECYCLE_HOOKS:
                yield (
                    f"`{name}` has the name of a hook, but is not marked as its implementation",
                    "decorate it with `@sentbed.hookimpl`",
                )
            continue

        hook_count += 1
        hook = options.get("specname") or name
        if hook not in LIFECYCLE_HOOKS:
            yield (
                f"there is no hook `{hook}` of a run.{suggest(hook, LIFECYCLE_HOOKS)}",
                "see `docs/hooks.md`",
            )
            continue

        hook_arguments = list(inspect.signature(getattr(hookspecs, hook)).parameters)
        for argument, parameter in inspect.signature(method).parameters.items():
            if argument not in hook_arguments and parameter.default is parameter.empty:
                yield (
                    f"the hook `{hook}` has no argument `{argument}`",
                    f"its arguments are {', '.join(hook_arguments)}",
                )

    if not hook_count:
        yield (
            "what `build` returns implements no hook",
            "decorate methods with `@sentbed.hookimpl`",
        )


@contextmanager
def following(
    context: RunContext,
    plugins: Plugins,
    history: History,
) -> Iterator[None]:
    """Register the history and the trackers of a run in a `with` block, and guard the hooks (see `_guarded`).

    Errors of the history are not guarded, since a run without its history is not complete. Hook wrappers are not
    guarded either, since they are generators, which pluggy resumes.

    Raises:
        PluginError: if the object that a tracker builds cannot follow a run.
    """
    manager = plugins.manager
    owners: dict[Any, str] = {}
    with ExitStack() as stack:
        manager.register(history)
        stack.callback(manager.unregister, history)
        for tracker in context.recipe.tracker:
            built = tracker.build()
            for what, remedy in hook_faults(built):
                wrong = f"returned {built!r:.80}, which cannot follow a run: {what}; {remedy}"
                raise fault(tracker, "build", wrong)
            try:
                name = manager.register(built)
            except ValueError as error:
                wrong = "returned an object equal to another tracker's; let its class compare by identity"
                raise fault(tracker, "build", wrong) from error
            stack.callback(manager.unregister, built)
            info = plugins.origin(type(tracker))
            owners[name] = f"the tracker `{tracker.name}`"
            if info is not None:
                owners[name] += f" of `{info.release}`"

        failed: set[str] = set()
        for hook in LIFECYCLE_HOOKS:
            for implementation in getattr(manager.hook, hook).get_hookimpls():
                if implementation.plugin is history:
                    continue
                if implementation.wrapper or implementation.hookwrapper:
                    continue
                function = implementation.function
                # The plugin outlives the run, and gets its own function back.
                stack.callback(setattr, implementation, "function", function)
                name = implementation.plugin_name
                owner = owners.get(name, f"the plugin `{name}`")
                implementation.function = _guarded(
                    context, hook, implementation, owner, failed
                )
        yield


def _guarded(
    context: RunContext,
    hook: str,
    implementation: pluggy.HookImpl,
    owner: str,
    failed: set[str],
) -> Callable[..., Any]:
    """Return the function of a hook, wrapped so that it turns most errors into warnings.

    `failed` has the names of the plugins whose hooks have failed; they are not called any more. `owner` names the
    plugin in messages. The function raises `SentbedError` if the hook raises it and either the tracker is
    `required` or the run starts, and `PluginError` if the hook of a `required` tracker raises another error.
    """
    function: Callable[..., Any] = implementation.function
    plugin = implementation.plugin

    def call(*arguments: Any) -> Any:
        if implementation.plugin_name in failed:
            return None
        try:
            return _checked(hook, function(*arguments))
        except (Exception, SystemExit) as error:
            # Without a tracker that is `required`, the run must not go on.
            required = getattr(plugin, "required", False) is True
            # A tracker that cannot work may raise such an error on purpose, before anything is computed.
            is_deliberate = isinstance(error, SentbedError)
            is_at_start = hook in ("run_started", "run_resumed")
            if is_deliberate and (required or is_at_start):
                raise

            message = f"{owner} failed in `{hook}`: {failure(error)}"
            if required:
                raise PluginError(f"{message}; the run needs it") from error

            failed.add(implementation.plugin_name)
            warning = f"{message}; the run goes on without it"
            if not is_deliberate:
                warning += f" ({ADVICE})"
            context.warn(warning)
            return None

    return call


def _checked(hook: str, result: Any) -> Any:
    """Return the result of a hook. Raises `TypeError` or `ValueError` if the run cannot use it."""
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
