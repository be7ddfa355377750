"""The user's configuration, `sentbed/config.toml`: which plugins are loaded, and in which order.

Two environment variables override its lists `disable` and `allow`, so that a single command can run without a
plugin.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from sentbed._document.toml import Document, KeyPath
from sentbed.errors import PluginError, Problem, RecipeError, suggest

CONFIG_VARIABLE = "SENTBED_CONFIG"
DISABLE_VARIABLE = "SENTBED_PLUGINS_DISABLE"
ALLOW_VARIABLE = "SENTBED_PLUGINS_ALLOW"

CORE = "sentbed"
"""Distribution whose plugins are always allowed; also the name of the configuration's directory."""


@attrs.frozen
class PluginTable:
    """The table `[plugins]` of the configuration.

    A plugin is given as NAME, DISTRIBUTION or DISTRIBUTION:NAME.
    """

    disable: tuple[str, ...] = ()
    """Plugins that are not loaded."""
    allow: tuple[str, ...] | None = None
    """Plugins that are loaded in addition to core's; None means all."""
    prefer: Mapping[str, str] = attrs.field(factory=dict)
    """Plugin whose component is used if several plugins claim its name; the key is `KIND/NAME`."""
    order: tuple[str, ...] = ()
    """Plugins whose lifecycle hooks are called first, in this order."""


@attrs.frozen
class _Configuration:
    """The whole configuration."""

    plugins: PluginTable = attrs.field(factory=PluginTable)


@attrs.frozen
class Settings:
    """The user's settings for plugins, from the configuration and the environment variables.

    Each setting has its source: `file:line`, or the name of an environment variable.
    """

    file: Path
    """Path of the configuration; the file need not exist."""
    disable: Mapping[str, str] = attrs.field(factory=dict)
    """Plugins that are not loaded: the name that the user gave to each, and the source."""
    allow: Mapping[str, str] | None = None
    """Plugins that are loaded: the name that the user gave to each, and the source. None if all are loaded."""
    allowed_by: str = ""
    """Source of the list `allow`."""
    prefer: Mapping[str, tuple[str, str]] = attrs.field(factory=dict)
    """For each `KIND/NAME`, the preferred plugin and the source."""
    order: Mapping[str, str] = attrs.field(factory=dict)
    """Plugins whose hooks are called first: the name that the user gave to each, and the source; in order."""

    def refusal(self, distribution: str, plugin: str) -> str | None:
        """Return why a plugin is disabled, with a remedy; None if it is not disabled."""
        for name, place in self.disable.items():
            if fits(name, distribution, plugin):
                return f"disabled by {place}; take it out there"
        if self.allow is None or distribution == CORE:
            return None
        if any(fits(name, distribution, plugin) for name in self.allow):
            return None
        return f"disabled, since {self.allowed_by} does not allow it; add `{distribution}` there"

    def named(self) -> Iterator[tuple[str, str, str]]:
        """Yield, for each plugin that a setting names: the name of the setting, the plugin's name, the source."""
        for setting in ("disable", "allow", "order"):
            for name, place in (getattr(self, setting) or {}).items():
                yield setting, name, place
        for name, place in self.prefer.values():
            yield "prefer", name, place


def fits(
    name: str,
    distribution: str,
    plugin: str,
) -> bool:
    """Whether a name in the configuration is that of the plugin, of its distribution, or DISTRIBUTION:NAME."""
    owner, _, plugin_name = name.rpartition(":")
    if owner:
        return plugin_name == plugin and normalised(owner) == normalised(distribution)
    return name == plugin or normalised(name) == normalised(distribution)


def normalised(distribution: str) -> str:
    """Return the name of a distribution as PEP 503 normalises it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def config_file() -> Path:
    """Return the path of the configuration: `SENTBED_CONFIG`, or a file in the user's configuration directory."""
    from platformdirs import user_config_path

    value = os.environ.get(CONFIG_VARIABLE)
    try:
        if value:
            return Path(value).expanduser()
        return user_config_path(CORE, appauthor=False) / "config.toml"
    except RuntimeError:  # The user has no home directory. This path does not exist, so the defaults are used.
        return Path(value or "~/.config/sentbed/config.toml")


def read_settings() -> Settings:
    """Return the settings of the user's configuration and the environment variables.

    Raises:
        PluginError: if the file cannot be read or has problems. The message lists all problems with their lines.
    """
    file = config_file()
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        if os.environ.get(CONFIG_VARIABLE):
            raise PluginError(
                f"`{CONFIG_VARIABLE}` names `{file}`, which does not exist; create it, or unset the variable"
            ) from error
        content = b""
    except OSError as error:
        raise PluginError(
            f"the configuration `{file}` cannot be read: {error.strerror}; make it a file that you may read"
        ) from error

    settings = _parsed(file, content) if content else Settings(file)
    names = _names_in_variable(DISABLE_VARIABLE)
    if names is not None:
        settings = attrs.evolve(settings, disable=names)
    names = _names_in_variable(ALLOW_VARIABLE)
    if names is not None:
        place = f"the environment variable `{ALLOW_VARIABLE}`"
        settings = attrs.evolve(settings, allow=names or None, allowed_by=place)
    return settings


def _names_in_variable(variable: str) -> dict[str, str] | None:
    """Return the source of each name in an environment variable, by name; None if the variable is not set."""
    value = os.environ.get(variable)
    if value is None:
        return None
    names = filter(None, map(str.strip, value.split(",")))
    return dict.fromkeys(names, f"the environment variable `{variable}`")


def _parsed(file: Path, content: bytes) -> Settings:
    """Return the settings in the content of the configuration. Raises `PluginError` with all problems."""
    # Imported here, since these modules are slow to import, and few users have a configuration.
    from sentbed._document.structuring import structure
    from sentbed._document.toml import parse
    from sentbed.kinds import KINDS

    try:
        document = parse(content, str(file))
    except RecipeError as error:
        raise _wrong(error.problems) from error
    configuration, problems = structure(
        document.data, _Configuration, document, None, file.parent
    )
    if problems:
        raise _wrong(problems)

    table = configuration.plugins
    for component in table.prefer:
        kind, slash, name = component.partition("/")
        if not (slash and name and kind in KINDS):
            message = (
                f'found `{component}`, expected `KIND/NAME`, such as `"pooler/mean"`.'
            )
            if slash:
                message += suggest(kind, list(KINDS))
            problems.append(document.problem(message, ("plugins", "prefer", component)))
    if problems:
        raise _wrong(problems)

    def places(key: str, names: tuple[str, ...]) -> dict[str, str]:
        sources = {}
        for number, name in enumerate(names):
            sources[name] = _place(document, ("plugins", key, number))
        return sources

    allowed = None
    if table.allow is not None:
        allowed = places("allow", table.allow)
    prefer = {}
    for component, plugin in table.prefer.items():
        place = _place(document, ("plugins", "prefer", component))
        prefer[component] = (plugin, place)
    return Settings(
        file,
        places("disable", table.disable),
        allowed,
        _place(document, ("plugins", "allow")),
        prefer,
        places("order", table.order),
    )


def _place(document: Document, path: KeyPath) -> str:
    """Return `file:line` of a key."""
    file, line = document.place(path)
    return f"{file}:{line}"


def _wrong(problems: tuple[Problem, ...] | list[Problem]) -> PluginError:
    """Return the error with all problems of the configuration."""
    noun = "problem" if len(problems) == 1 else "problems"
    lines = "\n".join(f"  {problem}" for problem in problems)
    return PluginError(f"{len(problems)} {noun} in the configuration:\n{lines}")
