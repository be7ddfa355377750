"""Names of components in error messages, with the distributions that they come from."""

from __future__ import annotations

import re
from importlib.metadata import entry_points


def release_of(module: str) -> str:
    """Return the distribution and version of a plugin's module; the module's name if no plugin has it."""
    package = module.partition(".")[0]
    for point in entry_points(group="sentbed"):
        if point.dist and point.module.partition(".")[0] == package:
            return f"`{point.dist.name}` {point.dist.version}"
    return f"`{module}`"


def full_name(component: object) -> str:
    """Return kind, name, distribution and version of a component: "the loss `info-nce` of `sentbed-losses` 0.3".

    An object that a component has built, such as a `TextEncoder`, is named after its class.
    """
    cls = type(component)
    kind = "object"
    for base in cls.__mro__:
        if base.__module__.startswith("sentbed.protocols."):
            kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", base.__name__).lower()
            break
    name = getattr(component, "name", cls.__qualname__)
    return f"the {kind} `{name}` of {release_of(cls.__module__)}"
