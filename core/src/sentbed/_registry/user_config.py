"""The user's configuration, `sentbed/config.toml`: which plugins are loaded, and in which order.

Environment variables override the file's lists, so that a single command can run without a plugin.
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
"""Distribution that is always allowed."""


@attrs.frozen
class PluginTable:
    """`[plugins]` of the configuration; plugins are given as NAME, DISTRIBUTION or DISTRIBUTION:NAME."""

    disable: tuple[str, ...] = ()
    """Plugins that are not loaded."""
    allow: tuple[str, ...] | None = None
    """The only plugins that are loaded besides core's; by default all."""
    prefer: Mapping[str, str] = attrs.field(factory=dict)
    """`KIND/NAME` -> plugin whose component is used if several plugins claim the name."""
    order: tuple[str, ...] = ()
    """Plugins whose lifecycle hooks are called first, in this order."""


@attrs.frozen
class _Configuration:
    plugins: PluginTable = attrs.field(factory=PluginTable)


@attrs.frozen
class Settings:
    """The user's settings for plugins; mappings are name -> source (`file:line` or environment variable)."""

    file: Path
    """Path of the configuration, which need not exist."""
    disable: Mapping[str, str] = attrs.field(factory=dict)
    allow: Mapping[str, str] | None = None
    allowed_by: str = ""
    """Source of the list `allow`."""
    prefer: Mapping[str, tuple[str, str]] = attrs.field(factory=dict)
    """`KIND/NAME` -> (plugin, source)."""
    order: Mapping[str, str] = attrs.field(factory=dict)

    def refusal(self, distribution: str, plugin: str) -> str | None:
        """Return why a plugin is disabled, with the remedy, or None if it is not."""
        for name, place in self.disable.items():
            if fits(name, distribution, plugin):
                return f"disabled by {place}; take it out there"
        if self.allow is None or distribution == CORE:
            return None
        if any(fits(name, distribution, plugin) for name in self.allow):
            return None
        return f"disabled, since {self.allowed_by} does not allow it; add `{distribution}` there"

    def named(self) -> Iterator[tuple[str, str, str]]:
        """Yield (list, name, source) for every plugin named in the settings."""
        for key in ("disable", "allow", "order"):
            for name, place in (getattr(self, key) or {}).items():
                yield key, name, place
        for name, place in self.prefer.values():
            yield "prefer", name, place


def fits(name: str, distribution: str, plugin: str) -> bool:
    """Whether a configured name means this plugin or its distribution."""
    owner, _, point = name.rpartition(":")
    if owner:
        return point == plugin and _canonical(owner) == _canonical(distribution)
    return name == plugin or _canonical(name) == _canonical(distribution)


def _canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def config_file() -> Path:
    """Return the configuration's path: `SENTBED_CONFIG`, or a file in the user's configuration directory."""
    from platformdirs import user_config_path

    value = os.environ.get(CONFIG_VARIABLE)
    try:
        if value:
            return Path(value).expanduser()
        return user_config_path(CORE, appauthor=False) / "config.toml"
    except RuntimeError:  # a user without a home directory has no configuration
        return Path(value or "~/.config/sentbed/config.toml")


def read_settings() -> Settings:
    """Read the user's configuration and the environment variables; use the defaults if there is none.

    Raises:
        PluginError: if the file is invalid; lists all problems with their lines.
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
    if (names := _listed(DISABLE_VARIABLE)) is not None:
        settings = attrs.evolve(settings, disable=names)
    if (names := _listed(ALLOW_VARIABLE)) is not None:
        place = f"the environment variable `{ALLOW_VARIABLE}`"
        settings = attrs.evolve(settings, allow=names or None, allowed_by=place)
    return settings


def _listed(variable: str) -> dict[str, str] | None:
    """Return the names in an environment variable, each with its source; None if it is not set."""
    value = os.environ.get(variable)
    if value is None:
        return None
    names = filter(None, map(str.strip, value.split(",")))
    return dict.fromkeys(names, f"the environment variable `{variable}`")


def _parsed(file: Path, content: bytes) -> Settings:
    # Imported here, since these are slow to import, and few users have a configuration.
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
    for part in table.prefer:
        kind, slash, name = part.partition("/")
        if not (slash and name and kind in KINDS):
            message = f'found `{part}`, expected `KIND/NAME`, such as `"pooler/mean"`.'
            if slash:
                message += suggest(kind, list(KINDS))
            problems.append(document.problem(message, ("plugins", "prefer", part)))
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
    for part, plugin in table.prefer.items():
        prefer[part] = plugin, _place(document, ("plugins", "prefer", part))
    return Settings(
        file,
        places("disable", table.disable),
        allowed,
        _place(document, ("plugins", "allow")),
        prefer,
        places("order", table.order),
    )


def _place(document: Document, path: KeyPath) -> str:
    file, line = document.place(path)
    return f"{file}:{line}"


def _wrong(problems: tuple[Problem, ...] | list[Problem]) -> PluginError:
    noun = "problem" if len(problems) == 1 else "problems"
    lines = "\n".join(f"  {problem}" for problem in problems)
    return PluginError(f"{len(problems)} {noun} in the configuration:\n{lines}")
