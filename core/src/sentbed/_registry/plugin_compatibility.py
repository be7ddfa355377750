"""Compatibility of a plugin with this version of sentbed.

A plugin declares the API version that it is made for. Its distribution says which versions of sentbed it needs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from itertools import accumulate
from typing import TYPE_CHECKING

from sentbed._registry.plugin_source_code import module_of
from sentbed._version import API_VERSION, __version__

if TYPE_CHECKING:
    from packaging.requirements import Requirement

API_NAME = "sentbed_api"
"""Name of the variable in a plugin's module that has the API version the plugin is made for."""


def declared_api(value: str, plugin: object) -> object:
    """Return the API version that a loaded plugin declares, or None if it declares none.

    The variable `sentbed_api` may be in the plugin object, in its module or in a parent package. `value` is the
    value of the entry point (`module:object`).
    """
    names = accumulate(module_of(value).split("."), "{}.{}".format)
    modules = [sys.modules.get(name) for name in names]
    for declaring in (plugin, *reversed(modules)):
        api: object = getattr(declaring, API_NAME, None)
        if api is not None:
            return api
    return None


def api_refusal(api: object, distribution: str) -> str | None:
    """Return why a plugin that declares this API version cannot be used, with a remedy; None if it can be."""
    if api is None:
        return None
    match = None
    if isinstance(api, str):
        match = re.fullmatch(r"([0-9]{1,6})\.([0-9]{1,6})", api)
    if match is None:
        return (
            f"its `{API_NAME}` is {api!r}, which is no version; it must be MAJOR.MINOR as a string, "
            f'such as "{API_VERSION}"'
        )

    declared = tuple(map(int, match.groups()))
    ours = tuple(map(int, API_VERSION.split(".")))
    if declared[0] == ours[0] and declared <= ours:
        return None
    remedy = f"get a release of `{distribution}` for API {ours[0]}"
    if declared > ours:
        remedy = f"upgrade sentbed (`pip install --upgrade sentbed`), or {remedy}"
    return f"it is made for API {api} of sentbed, and sentbed {__version__} has API {API_VERSION}; {remedy}"


def requirements(distribution: str) -> Iterator[Requirement]:
    """Yield the requirements of a distribution that apply on this machine.

    A distribution that is not installed has none.
    """
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires(distribution) or ()
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def unmet_sentbed(distribution: str) -> str:
    """Return a clause that says which version of sentbed a distribution requires; "" if it accepts this one."""
    specifiers = []
    is_met = True
    try:
        for requirement in requirements(distribution):
            if requirement.name.lower() == "sentbed":
                specifier = requirement.specifier
                specifiers.append(str(specifier))
                is_met = is_met and specifier.contains(__version__, prereleases=True)
    except ValueError:  # the distribution's metadata is damaged
        return ""
    if is_met:
        return ""
    return (
        f"; it asks for sentbed{', '.join(specifiers)}, and this is sentbed {__version__}: install "
        f"the sentbed that it asks for, or another release of `{distribution}`"
    )
