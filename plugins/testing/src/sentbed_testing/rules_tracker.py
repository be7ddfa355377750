"""Rules of what a tracker builds."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pluggy
from sentbed import hookspecs
from sentbed.errors import suggest
from sentbed.tools import GROUP, LIFECYCLE

from sentbed_testing.subject import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings


def hooks(subject: Subject) -> Findings:
    """It implements hooks of a run, by their names and with their arguments."""
    tracker = subject.ready.build()
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    found = 0
    for name, method in inspect.getmembers(tracker, callable):
        if manager.parse_hookimpl_opts(tracker, name) is None:
            if name in LIFECYCLE:
                yield f"`{name}` is named like a hook and is none", "decorate it with `@sentbed.hookimpl`"
            continue
        found += 1
        if name not in LIFECYCLE:
            yield (
                f"there is no hook `{name}` of a run.{suggest(name, sorted(LIFECYCLE))}",
                "see `docs/hooks.md`",
            )
            continue
        known = list(inspect.signature(getattr(hookspecs, name)).parameters)
        for argument in inspect.signature(method).parameters:
            if argument not in known:
                yield (
                    f"the hook `{name}` has no argument `{argument}`.{suggest(argument, known)}",
                    f"take some of {', '.join(known)}",
                )
    if not found:
        yield "what `build` returns implements no hook", "decorate methods with `@sentbed.hookimpl`"


def apart(subject: Subject) -> Findings:
    """Every run gets a tracker of its own."""
    part: Any = subject.ready
    if part.build() is part.build():
        yield "`build` returns the same object twice", "make a new one for each run"


RULES = {"hooks": hooks, "apart": apart}
