"""Whose code raised an error that is no `SentbedError`: the innermost frame in a plugin's code counts."""

from __future__ import annotations

import traceback

from sentbed._component_faults import distribution_of, release_of
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._version import __version__
from sentbed.errors import reason_of


def blame(error: BaseException, plugins: Plugins | None = None) -> str:
    """Return a sentence: whose code raised the error, what it said, where, and what to do."""
    try:
        return _blame(error, plugins or load_plugins())
    except Exception as second:  # noqa: BLE001 - without memory or files nothing can be looked up; the first counts
        return (
            f"{reason_of(error)}; whose code raised it could not be looked up ({reason_of(second)}); "
            "`--traceback` shows the rest"
        )


def _blame(error: BaseException, plugins: Plugins) -> str:
    said, place = " ".join(reason_of(error).split()), ""
    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        module, own = str(frame.f_globals.get("__name__")), f" @ {frame.f_code.co_filename}:{line}"
        place = place or own
        if module.partition(".")[0] == "sentbed":
            break
        if (owner := distribution_of(module)) is None:
            continue
        offered = [one for one in plugins.components.values() if one.distribution == owner[0]]
        name = getattr(frame.f_locals.get("self"), "name", None)
        named = [one for one in offered if one.name == name] or [o for o in offered if o.module == module]
        one, *others = [*(named or offered), None]
        what = f"the {one.kind} `{one.name}` of " if one and others == [None] else ""
        test = "test it with `sentbed_testing.check_component`, or " if named else ""
        rest = f"{test}tell its authors (`--traceback` shows the rest)"
        return f"{what}{release_of(module)} raised {said}{own}; {rest}"
    return f"sentbed {__version__} raised {said}{place}; tell its authors what `--traceback` shows"
