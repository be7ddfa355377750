"""Finds the plugin whose code raised an unexpected error, by the innermost frame in a plugin's code."""

from __future__ import annotations

import traceback

from sentbed._component_faults import distribution_of, release_of
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._version import __version__
from sentbed.errors import reason_of


def blame(error: BaseException, plugins: Plugins | None = None) -> str:
    """Return a sentence that names the plugin that raised the error, the reason, the place and a remedy."""
    try:
        return _blame(error, plugins or load_plugins())
    except Exception as second:  # noqa: BLE001 - without memory or files nothing can be looked up; the first counts
        return (
            f"{reason_of(error)}; whose code raised it could not be looked up ({reason_of(second)}); "
            "`--traceback` shows the rest"
        )


def _blame(error: BaseException, plugins: Plugins) -> str:
    reason = " ".join(reason_of(error).split())
    frames = [*traceback.walk_tb(error.__traceback__)]
    for frame, line in reversed(frames):
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] == "sentbed":
            break
        if (owner := distribution_of(module)) is None:
            continue
        components = plugins.components.values()
        offered = [info for info in components if info.distribution == owner[0]]
        name = getattr(frame.f_locals.get("self"), "name", None)
        matches = [info for info in offered if info.name == name]
        if not matches:
            matches = [info for info in offered if info.module == module]

        component = ""
        candidates = matches
        if not matches and not _offers_tools(plugins, owner[0]):
            candidates = offered
        if len(candidates) == 1:
            (info,) = candidates
            component = f"the {info.kind} `{info.name}` of "
        advice = "tell its authors (`--traceback` shows the rest)"
        if matches:
            advice = f"test it with `sentbed_testing.check_component`, or {advice}"
        place = f"{frame.f_code.co_filename}:{line}"
        return f"{component}{release_of(module)} raised {reason} @ {place}; {advice}"
    place = ""
    if frames:
        frame, line = frames[-1]
        place = f" @ {frame.f_code.co_filename}:{line}"
    return f"sentbed {__version__} raised {reason}{place}; tell its authors what `--traceback` shows"


def _offers_tools(plugins: Plugins, distribution: str) -> bool:
    """Whether a distribution has commands or recipe tables, whose code is not that of its components."""
    tools = [*plugins.commands.values(), *plugins.tables.values()]
    return any(offer.distribution == distribution for offer in tools)
