"""Rules of a plugin as a whole, and of everything that it offers: `check_plugin`."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
import click
from sentbed import hookspecs
from sentbed.errors import PluginError, RecipeError, reason_of, suggest
from sentbed.kinds import KINDS
from sentbed.protocols import ReportData, ReportSection, Run, Score
from sentbed.tools import (
    Document,
    Offer,
    Plugins,
    Recipe,
    describe,
    load_plugins,
    resolved_toml,
    structure,
    structure_recipe,
)

from sentbed_testing.component_under_test import NotRunError
from sentbed_testing.conformance import (
    ComponentRule,
    ConformanceError,
    Failure,
    Findings,
    Report,
    component_rules,
    run_rules,
)
from sentbed_testing.heavy_imports import import_in_new_process

MINIMAL: Mapping[str, Any] = MappingProxyType(
    {
        "schema": 1,
        "run": {"name": "example"},
        "runtime": {"use": "cpu"},
        "encoder": {
            "backbone": {"use": "bert", "init": "random", "vocab_size": 512},
            "pooler": {"use": "mean"},
        },
    }
)
"""Recipe to which the recipe tables of a plugin are added."""
PRIVATE = "sentbed._"
"""Prefix of the names of the modules that only core may import."""

Fields: TypeAlias = Mapping[str, Any]


@attrs.frozen
class PluginReport:
    """Results of the rules of a plugin and of its components."""

    name: str
    passed: tuple[str, ...]
    """Rules of the plugin that passed."""
    components: Mapping[str, Report]
    """`KIND/NAME` -> report of the component."""
    of_plugin: Mapping[str, str] = attrs.field(factory=dict)
    """Rule of the plugin -> reason why it was not run."""

    @property
    def not_run(self) -> Mapping[str, str]:
        """Rule of the plugin, or `KIND/NAME: RULE` of a component -> reason why it was not run."""
        reasons = dict(self.of_plugin)
        for component, report in self.components.items():
            for rule, reason in report.not_run.items():
                reasons[f"{component}: {rule}"] = reason
        return reasons

    def __str__(self) -> str:
        lines = [f"{self.name}: passed: {', '.join(self.passed)}"]
        for rule, reason in self.of_plugin.items():
            lines.append(f"{self.name}: not run: {rule}: {reason}")
        for component, report in self.components.items():
            lines += [f"{component}: {line}" for line in str(report).splitlines()]
        return "\n".join(lines)


@attrs.frozen
class _Plugin:
    """A loaded plugin, with everything that its rules read."""

    info: Any
    """Entry of the plugin in the registry."""
    value: object
    """Object that the plugin's entry point names."""
    offers: Mapping[str, Offer]
    """`KIND/NAME` -> component, command or recipe table that the plugin offers."""
    plugins: Plugins
    """All installed plugins."""
    examples: Mapping[str, Fields]
    """`KIND/NAME` -> fields to test a component or a recipe table with."""

    def offered(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Yield the name and the object of each offer of a kind (`command`, `table`) that can be imported."""
        for path, offer in self.offers.items():
            if path.startswith(f"{kind}/"):
                # The rule `offers` reports an import that fails.
                with suppress(PluginError):
                    yield offer.name, offer.value

    def recipe(self) -> Recipe:
        """Return a minimal recipe with the plugin's tables. Raises `NotRunError` if the recipe is invalid."""
        table: dict[str, Any] = dict(MINIMAL)
        for name, _ in self.offered("table"):
            table[name] = dict(self.examples.get(f"table/{name}", {}))

        try:
            return structure_recipe(
                Document(table), self.plugins, Path.cwd(), check_files=False
            )
        except RecipeError as error:
            raise NotRunError(
                f"no recipe can be made with it: {error.problems[0].message}"
            ) from error

    @property
    def module(self) -> str:
        """Name of the module that the plugin's entry point names."""
        return str(self.info.value).partition(":")[0].strip()

    @property
    def root(self) -> Path:
        """Directory of the plugin's package, or the file of a plugin that is a single module."""
        parts = self.module.split(".")
        for end in range(1, len(parts) + 1):
            spec = find_spec(".".join(parts[:end]))
            # A namespace package has no file of its own, and may have plugins of other distributions.
            if spec is not None and spec.origin is not None:
                directories = spec.submodule_search_locations or [spec.origin]
                return Path(directories[0])
        raise NotRunError(f"the files of `{self.module}` cannot be found")

    @property
    def files(self) -> list[Path]:
        """Source files of the plugin."""
        root = self.root
        if root.is_file():
            return [root]
        return sorted(root.rglob("*.py"))


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


def check_plugin(
    name: str,
    *,
    examples: Mapping[str, Fields] | None = None,
    skip: Mapping[str, Mapping[str, str]] | None = None,
    jax: bool = False,
) -> PluginReport:
    """Run the rules of an installed plugin and the rules of every component that it offers.

    `docs/plugins/testing.md` explains the rules.

    Args:
        name: name of a plugin or of a distribution, as `sentbed plugins` lists them. All plugins of the
            distribution are checked.
        examples: `KIND/NAME` of a component -> its `example`; see `check_component`.
        skip: `KIND/NAME` of a component -> rule -> reason why the rule does not apply.
        jax: whether to test poolers and losses also under JAX.

    Raises:
        ConformanceError: if rules are broken; the message lists all of them.
    """
    __tracebackhide__ = True
    of_plugin, of_components = _rules_of(name, examples, skip, jax=jax)
    report, failures = run_rules((rule.name, rule) for rule in of_plugin)

    reports: dict[str, Report] = {}
    for path, rules in of_components.items():
        reports[path], failures_of_component = run_rules(rules.items())
        failures += _with_path(path, failures_of_component)

    if failures:
        raise ConformanceError(_error_title(name), tuple(failures))
    passed = tuple(dict.fromkeys(report.passed))
    return PluginReport(name, passed, MappingProxyType(reports), report.not_run)


def plugin_rules(
    name: str,
    *,
    examples: Mapping[str, Fields] | None = None,
    skip: Mapping[str, Mapping[str, str]] | None = None,
    jax: bool = False,
    must_run: bool = False,
) -> dict[str, PluginRule | ComponentRule]:
    """Return the rules of a plugin and of its components by id. Calling a rule runs it.

    The arguments are those of `check_plugin`. With `must_run`, a rule of a component counts as broken if it
    cannot be run, unless `skip` gives a reason.
    """
    __tracebackhide__ = True
    of_plugin, of_components = _rules_of(name, examples, skip, jax, must_run)
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
    jax: bool,
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

        offers = _offers_of(plugins, info)
        offered |= offers.keys()
        value = plugins.manager.get_plugin(info.key)
        plugin = _Plugin(info, value, offers, plugins, examples)
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
                    offer.value,
                    kind=offer.kind,
                    example=examples.get(path),
                    skip=skip.get(path),
                    jax=jax,
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


def _offers_of(plugins: Plugins, info: Any) -> dict[str, Offer]:
    """Return everything that a plugin offers, by `KIND/NAME`.

    An offer is included even if another distribution has an offer of the same name.
    """
    candidates = [
        *plugins.components.values(),
        *plugins.commands.values(),
        *plugins.tables.values(),
    ]
    for claims in plugins.clashes.values():
        candidates += claims

    offers = {}
    for offer in candidates:
        if (offer.distribution, offer.plugin) == (info.distribution, info.name):
            kind = offer.kind.removeprefix("recipe ")
            offers[f"{kind}/{offer.name}"] = offer
    return offers


def loads(info: Any) -> Findings:
    """Its entry point can be imported, and its hooks return values of the right types."""
    if info.status != "loaded":
        place = f" @ {info.place}" if info.place else ""
        yield (
            f"`{info.key}` is {info.status}: {info.reason}{place}",
            f"mend that, and see `sentbed plugins` for `{info.status}`",
        )


def imports_of_offer(offer: Offer) -> Findings:
    """A component, command or recipe table that it offers can be imported."""
    try:
        offer.value  # noqa: B018 - reading it imports it
    except PluginError as error:
        yield str(error), "mend what its hook returns"


def hooks(plugin: _Plugin) -> Findings:
    """It implements a hook, and marks each function that has the name of a hook."""
    if not plugin.info.kinds and not plugin.info.hooks:
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
        heavy = import_in_new_process(plugin.module, str(plugin.root))
    except ImportError as error:
        yield (
            f"in a new process, importing `{plugin.module}` ends in `{error}`",
            f"`python -c 'import {plugin.module}'` shows where",
        )
        return

    for library, place in heavy.items():
        yield (
            f"the library `{library}` is loaded with the plugin, at {place}",
            "import it in the method that needs it, or in a module that only this method imports",
        )


def private(plugin: _Plugin) -> Findings:
    """It imports none of core's private modules, which change without notice."""
    for file in plugin.files:
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError) as error:
            yield (
                f"`{file}` cannot be read: {error}",
                "mend it, or leave it out of the package",
            )
            continue

        for name, line in _absolute_imports(tree):
            if name.startswith(PRIVATE) and not name.startswith("sentbed.__"):
                yield (
                    f"it imports `{name}`, which belongs to core alone, at {file}:{line}",
                    "use `sentbed`, `sentbed.protocols` or `sentbed.helpers`; a tool may use `sentbed.tools`",
                )


def _absolute_imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the dotted name and the line of everything that a module imports, relative imports excepted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def commands(plugin: _Plugin) -> Findings:
    """The option `--help` of each command works, and describes the command."""
    for name, command in plugin.offered("command"):
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


def tables(plugin: _Plugin) -> Findings:
    """Each recipe table can be created, and its `problems` yields paths and sentences for a minimal recipe."""
    is_valid = True
    for name, cls in plugin.offered("table"):
        example = dict(plugin.examples.get(f"table/{name}", {}))
        _, problems = structure(
            example,
            cls,
            Document({name: example}),
            plugin.plugins,
            Path.cwd(),
            ((), (name,)),
            check=False,
        )
        for problem in problems:
            is_valid = False
            yield (
                f"`[{name}]` with {example or 'no keys'}: {problem.message}",
                f"give keys as the `example` of `table/{name}`",
            )

    if not is_valid:
        return

    recipe = plugin.recipe()
    for name, table in recipe.tables.items():
        fix = "yield (path below the table, a sentence that ends in what to do), and raise nothing"
        try:
            problems_of_table = list(table.problems(recipe, plugin.plugins, False))
        except Exception as error:  # noqa: BLE001 - any exception is a finding
            yield f"`problems` of `[{name}]` raises {reason_of(error)}", fix
            continue

        for entry in problems_of_table:
            match entry:
                case (tuple(), str()):
                    pass
                case _:
                    yield f"`problems` of `[{name}]` yields {entry!r:.100}", fix


def sections(plugin: _Plugin) -> Findings:
    """`report_sections` returns valid sections, for a run with scores and for a failed run without scores."""
    if "report_sections" not in plugin.info.hooks:
        return
    recipe = plugin.recipe()
    others = plugin.plugins.manager.get_plugins() - {plugin.value}
    hook = plugin.plugins.manager.subset_hook_caller("report_sections", others)

    facts = describe(plugin.plugins, None)
    protocol: dict[str, Any] = {"encoder": {}, "evaluator": {}}
    score = Score("example", "spearman", 50.0, protocol, "encoder", "example")
    failed = ReportData(
        "example",
        "failed",
        "it was interrupted",
        "2026-01-01T12:00:00+00:00",
        60.0,
        resolved_toml(recipe),
        facts,
        (),
    )
    finished = attrs.evolve(
        failed,
        status="finished",
        error=None,
        scores=(score,),
    )
    for data in (failed, finished):
        with TemporaryDirectory() as directory:
            run = Run("example", Path(directory), recipe, facts)
            try:
                results = list(hook(run=run, data=data))
            except Exception as raised:  # noqa: BLE001 - any exception is a finding
                yield (
                    f"`report_sections` raises {reason_of(raised)} for a run that {data.status}",
                    "a run may end before it has scores; return no section then",
                )
                continue

        for returned in results:
            yield from _section_faults(returned)


def _section_faults(returned: Any) -> Findings:
    """Yield what is wrong with the sections that `report_sections` returned."""
    fix = "return several `sentbed.protocols.ReportSection`"
    if not isinstance(returned, Sequence):
        yield f"`report_sections` returns {returned!r:.100}", fix
        return
    for section in returned:
        if not isinstance(section, ReportSection):
            yield f"`report_sections` returns {section!r:.100}", fix
            continue
        if not re.fullmatch("[A-Za-z0-9-]+", section.key):
            yield (
                f"a report section has the key {section.key!r}",
                "use only letters, digits and `-`",
            )

        for row in section.rows:
            if len(row) != len(section.columns):
                yield (
                    f"a row of the report section `{section.key}` has {len(row)} values for "
                    f"{len(section.columns)} columns",
                    "give one value for each column",
                )
                break


RULES: Mapping[str, Callable[[_Plugin], Findings]] = MappingProxyType(
    {
        "hooks": hooks,
        "imports": imports,
        "private": private,
        "commands": commands,
        "tables": tables,
        "sections": sections,
    }
)
