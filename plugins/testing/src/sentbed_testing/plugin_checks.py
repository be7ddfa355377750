"""Rules of a plugin as a whole, and of everything that it offers: `plugin_rules`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
import click
from sentbed import hookspecs
from sentbed.errors import PluginError, suggest
from sentbed.kinds import KINDS
from sentbed.tools import (
    Offer,
    Plugins,
    load_plugins,
)

from sentbed_testing.conformance import (
    ComponentRule,
    ConformanceError,
    Failure,
    Findings,
    component_rules,
)
from sentbed_testing.heavy_imports import heavy_libraries

Fields: TypeAlias = Mapping[str, Any]


@attrs.frozen
class _Plugin:
    """A loaded plugin, with everything that its rules read."""

    info: Any
    """Entry of the plugin in the registry."""
    value: object
    """Object that the plugin's entry point names."""
    offers: Mapping[str, Offer]
    """`KIND/NAME` -> component, command or recipe table that the plugin offers."""

    def commands(self) -> Iterator[tuple[str, click.Command]]:
        """Yield the name and the object of each command that can be imported."""
        for offer in self.offers.values():
            if offer.kind == "command":
                # The rule `offers` reports an import that fails.
                with suppress(PluginError):
                    yield offer.name, offer.load()

    @property
    def module(self) -> str:
        """Name of the module that the plugin's entry point names."""
        return str(self.info.module)


@attrs.frozen(eq=False)
class PluginRule:
    """A rule of one plugin.

    Calling it raises `ConformanceError` if the plugin breaks the rule, and `NotRunError` if the rule cannot be
    run.
    """

    name: str
    plugin: str
    check: Callable[[], Findings] = attrs.field(repr=False)

    @property
    def id(self) -> str:
        """Id of the test, such as `plugin/poolers/imports`."""
        return f"plugin/{self.plugin}/{self.name}"

    def __call__(
        self,
        example: Mapping[str, Any] | None = None,
        examples: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Run the rule.

        `example` and `examples` are ignored. They exist so that rules of plugins and of components can be called
        in the same way.
        """
        __tracebackhide__ = True
        failures = []
        for what, fix in self.check():
            failures.append(Failure(self.name, what, fix))
        if failures:
            raise ConformanceError(_error_title(self.plugin), tuple(failures))


def plugin_rules(
    name: str,
    *,
    examples: Mapping[str, Fields] | None = None,
    skip: Mapping[str, Mapping[str, str]] | None = None,
    must_run: bool = False,
) -> dict[str, PluginRule | ComponentRule]:
    """Return the rules of a plugin and of its components by id. Calling a rule runs it.

    `docs/plugins/testing.md` explains the rules.

    Args:
        name: name of a plugin or of a distribution, as `sentbed plugins` lists them. All plugins of the
            distribution are checked.
        examples: `KIND/NAME` of a component -> its `example`; see `component_rules`.
        skip: `KIND/NAME` of a component -> rule -> reason why the rule does not apply.
        must_run: whether a rule counts as broken if it cannot be run, unless `skip` gives a reason.
    """
    __tracebackhide__ = True
    of_plugin, of_components = _rules_of(name, examples, skip, must_run)
    rules: dict[str, PluginRule | ComponentRule] = {rule.id: rule for rule in of_plugin}
    for of_component in of_components.values():
        for rule in of_component.values():
            rules[rule.id] = rule
    return rules


def _error_title(name: str) -> str:
    return f"the plugin `{name}` breaks rules"


def _with_path(path: str, failures: Iterable[Failure]) -> list[Failure]:
    """Return a component's failures with the component's `KIND/NAME` before the names of the rules."""
    return [
        attrs.evolve(failure, rule=f"{path}: {failure.rule}") for failure in failures
    ]


def _rules_of(
    name: str,
    examples: Mapping[str, Fields] | None,
    skip: Mapping[str, Mapping[str, str]] | None,
    must_run: bool = False,
) -> tuple[list[PluginRule], dict[str, dict[str, ComponentRule]]]:
    """Return the rules of a plugin, and the rules of each of its components by `KIND/NAME`."""
    __tracebackhide__ = True
    plugins = load_plugins()
    examples, skip = dict(examples or {}), dict(skip or {})

    rules: list[PluginRule] = []
    of_components: dict[str, dict[str, ComponentRule]] = {}
    failures: list[Failure] = []
    offered: set[str] = set()
    for info in _plugins_named(name, plugins):
        rules.append(PluginRule("loads", info.name, partial(loads, info)))
        if info.status != "loaded":
            continue

        offers = _offers_of(info)
        offered |= offers.keys()
        value = plugins.manager.get_plugin(info.key)
        plugin = _Plugin(info, value, offers)
        for rule, check in RULES.items():
            rules.append(PluginRule(rule, info.name, partial(check, plugin)))

        for path, offer in offers.items():
            # Each offer is imported once: another attempt may fail in another way, or succeed.
            faults = list(imports_of_offer(offer))
            if faults:
                rules.append(PluginRule("offers", info.name, partial(iter, faults)))
            if faults or offer.kind not in KINDS:
                continue
            try:
                of_components[path] = component_rules(
                    offer.load(),
                    kind=offer.kind,
                    example=examples.get(path),
                    skip=skip.get(path),
                    must_run=must_run,
                )
            except ConformanceError as error:
                failures += _with_path(path, error.failures)

    # Nothing is offered if the plugin cannot be loaded; the rule `loads` reports that.
    if offered:
        for path in {**examples, **skip}:
            if path not in offered:
                what = f"`{path}`, for which there is an example or a reason, is nothing that it offers"
                fix = "write `KIND/NAME`, such as `pooler/mean`"
                failures.append(Failure("examples", what, fix))

    if failures:
        raise ConformanceError(_error_title(name), tuple(failures))
    return rules, of_components


def _plugins_named(name: str, plugins: Plugins) -> list[Any]:
    """Return the plugin of this name, or the plugins of the distribution of this name.

    Raises `ConformanceError` if there are none.
    """
    __tracebackhide__ = True
    infos = []
    names = set()
    for info in plugins.plugins:
        names |= {info.name, info.distribution}
        if name in (info.name, info.distribution, info.key):
            infos.append(info)

    if not infos:
        what = f"no installed plugin is called `{name}`"
        close = suggest(name, sorted(names)).partition(" Choose")[0]
        fix = f"install it (`pip install -e DIRECTORY`) with an entry point in the group `sentbed`.{close}"
        raise ConformanceError(_error_title(name), (Failure("installed", what, fix),))
    return infos


def _offers_of(info: Any) -> dict[str, Offer]:
    """Return everything that a plugin offers, by `KIND/NAME`."""
    offers = {}
    for offer in info.offers:
        kind = offer.kind.removeprefix("recipe ")
        offers[f"{kind}/{offer.name}"] = offer
    return offers


def loads(info: Any) -> Findings:
    """Its entry point can be imported, and its hooks return values of the right types."""
    if info.status != "loaded":
        yield (
            f"`{info.key}` is {info.status}: {info.reason}",
            f"mend that, and see `sentbed plugins` for `{info.status}`",
        )


def imports_of_offer(offer: Offer) -> Findings:
    """A component, command or recipe table that it offers can be imported."""
    try:
        offer.load()
    except PluginError as error:
        yield str(error), "mend what its hook returns"


def hooks(plugin: _Plugin) -> Findings:
    """It implements a hook, and marks each function that has the name of a hook."""
    if not plugin.info.hooks:
        yield (
            "it implements no hook",
            "mark a function with `@sentbed.hookimpl`; see `docs/hooks.md`",
        )

    for name, spec in vars(hookspecs).items():
        if not hasattr(spec, "sentbed_spec"):
            continue

        function = getattr(plugin.value, name, None)
        if not inspect.isroutine(function):
            continue
        if function.__module__ != plugin.module or hasattr(function, "sentbed_impl"):
            continue
        yield (
            f"`{name}` has the name of a hook, but is not marked as its implementation",
            "decorate it with `@sentbed.hookimpl`",
        )


def imports(plugin: _Plugin) -> Findings:
    """Importing it loads no heavy library."""
    try:
        libraries = heavy_libraries(plugin.module)
    except ImportError as error:
        yield (
            f"in a new process, importing `{plugin.module}` ends in `{error}`",
            f"`python -c 'import {plugin.module}'` shows where",
        )
        return

    for library in libraries:
        yield (
            f"the library `{library}` is loaded with the plugin",
            "import it in the method that needs it, or in a module that only this method imports; "
            f"`python -X importtime -c 'import {plugin.module}'` shows where",
        )


def commands(plugin: _Plugin) -> Findings:
    """The option `--help` of each command works, and describes the command."""
    for name, command in plugin.commands():
        yield from _help_faults(name, command)


def _help_faults(words: str, command: click.Command) -> Findings:
    """Yield what is wrong with the help of a command and of its subcommands.

    `words` is the command as it is typed after `sentbed`.
    """
    from click.testing import CliRunner

    result = CliRunner().invoke(command, ["--help"], prog_name=f"sentbed {words}")
    if result.exit_code != 0:
        reason = result.output.strip() or repr(result.exception)
        yield (
            f"`sentbed {words} --help` ends with {result.exit_code}: {reason:.200}",
            "create the command without arguments, and import what it needs in its function",
        )
    elif not (command.help or "").strip():
        yield (
            f"`sentbed {words} --help` does not say what the command does",
            "write a docstring under its function",
        )

    for name, subcommand in getattr(command, "commands", {}).items():
        yield from _help_faults(f"{words} {name}", subcommand)


RULES: Mapping[str, Callable[[_Plugin], Findings]] = MappingProxyType(
    {
        "hooks": hooks,
        "imports": imports,
        "commands": commands,
    }
)
