"""Messages for unexpected errors, which name the plugin whose code raised the error."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from types import FrameType

from sentbed._component_faults import distribution_of, release_of
from sentbed._registry.offers import COMMAND, TABLE, Offer
from sentbed._registry.registry import Plugins, load_plugins
from sentbed._version import __version__
from sentbed.errors import reason_of


def blame(error: BaseException, plugins: Plugins | None = None) -> str:
    """Return a sentence with the plugin whose code raised an error, the reason, `file:line` and a remedy."""
    try:
        return _blame(error, plugins or load_plugins())
    except Exception as second:  # noqa: BLE001 - if memory or files are exhausted, the first error counts
        return (
            f"{reason_of(error)}; whose code raised it could not be looked up ({reason_of(second)}); "
            "`--traceback` shows the rest"
        )


def _blame(error: BaseException, plugins: Plugins) -> str:
    reason = " ".join(reason_of(error).split())
    frames = list(traceback.walk_tb(error.__traceback__))

    # The innermost frame in the code of a plugin counts, unless core's code is further inside.
    for frame, line in reversed(frames):
        module = str(frame.f_globals.get("__name__"))
        if module.startswith("sentbed.protocols."):
            # A class that plugins make refuses what a plugin gives it.
            continue
        if module.partition(".")[0] == "sentbed":
            break
        release = distribution_of(module)
        if release is None:
            continue

        offered: list[Offer] = []
        for plugin in plugins.plugins:
            if plugin.distribution == release[0]:
                offered += plugin.offers
        matches = _components_of_frame(frame, offered)
        candidates = matches
        if not matches and not any(offer.kind in (COMMAND, TABLE) for offer in offered):
            candidates = offered
        component = ""
        if len(candidates) == 1:
            component = f"the {candidates[0].kind} `{candidates[0].name}` of "

        advice = "tell its authors (`--traceback` shows the rest)"
        if matches:
            advice = f"test it with `sentbed_testing`, or {advice}"
        place = f"{frame.f_code.co_filename}:{line}"
        return f"{component}{release_of(module)} raised {reason} @ {place}; {advice}"

    place = ""
    if frames:
        frame, line = frames[-1]
        place = f" @ {frame.f_code.co_filename}:{line}"
    return f"sentbed {__version__} raised {reason}{place}; tell its authors what `--traceback` shows"


def _components_of_frame(
    frame: FrameType,
    offered: Sequence[Offer],
) -> list[Offer]:
    """Return the components whose code a frame may run: those with the `name` of the frame's `self`."""
    name = getattr(frame.f_locals.get("self"), "name", None)
    return [offer for offer in offered if offer.name == name]
