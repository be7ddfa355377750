"""Rules of a plugin as a whole, and of everything that it offers: `check_plugin`."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
import click
from packaging.requirements import Requirement
from sentbed import API_VERSION, hookspecs
from sentbed.errors import PluginError, RecipeError, reason_of, suggest
from sentbed.kinds import KINDS
from sentbed.protocols import ReportData, ReportSection, Run, RunStatus, Score
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
from sentbed_testing.heavy_imports import HEAVY, WATCH

IMPORT_SECONDS = 0.5
"""Longest CPU time in seconds that importing a plugin may add to every command of sentbed."""
TRIES = 3
"""Number of times that a slow import is measured; the shortest counts."""
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
"""Recipe to which the tables of a plugin are added."""
PRIVATE = "sentbed._"
"""Beginning of the names of core's own modules."""

Fields: TypeAlias = Mapping[str, Any]

_CODE = (
    WATCH
    + """
import sentbed, sentbed.protocols, time

start = time.process_time()
importlib.import_module(asked["module"])
seconds = time.process_time() - start
print(json.dumps([seconds, [[name, places[name]] for name in places if name in sys.modules]]))
"""
)
"""Program that imports a plugin and prints the CPU seconds that it took, and the heavy libraries that it loaded.
`WATCH` reads the request into `asked`, and fills `places`: heavy library -> `file:line` of its import."""


@attrs.frozen
class PluginReport:
    """Results of the rules of a plugin and of its components."""

    name: str
    passed: tuple[str, ...]
    components: Mapping[str, Report]
    """`KIND/NAME` -> report of the component."""
    of_plugin: Mapping[str, str] = attrs.field(factory=dict)
    """Rule of the plugin -> reason for which it was not run."""

    @property
    def not_run(self) -> Mapping[str, str]:
        """Rule, or `KIND/NAME: RULE` -> reason for which it was not run."""
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
    """A loaded plugin with everything that its rules read."""

    info: Any
    """Its entry in the registry."""
    value: object
    """The object that its entry point names."""
    offers: Mapping[str, Offer]
    """`KIND/NAME` -> component, command or recipe table."""
    plugins: Plugins
    """All installed plugins."""
    examples: Mapping[str, Fields]
    """`KIND/NAME` -> fields to test it with."""

    def offered(self, kind: str) -> Iterator[tuple[str, Any]]:
        """Yield name and value of everything of this kind (`command`, `table`) that can be imported."""
        for at, offer in self.offers.items():
            if at.startswith(f"{kind}/"):
                # An import that fails is a finding of the rule `offers`.
                with suppress(PluginError):
                    yield offer.name, offer.value

    def recipe(self) -> Recipe:
        """Return a minimal recipe with the plugin's tables. Raises `NotRunError` if none can be created."""
        table: dict[str, Any] = dict(MINIMAL)
        for name, _ in self.offered("table"):
            table[name] = dict(self.examples.get(f"table/{name}", {}))
        try:
            return structure_recipe(
                Document(table), self.plugins, Path.cwd(), look=False
            )
        except RecipeError as error:
            raise NotRunError(
                f"no recipe can be made with it: {error.problems[0].message}"
            ) from error

    @property
    def module(self) -> str:
        """Module of its entry point."""
        return str(self.info.value).partition(":")[0].strip()

    @property
    def files(self) -> list[Path]:
        """Source files of its package."""
        spec = find_spec(self.module.partition(".")[0])
        roots = [
            Path(place) for place in (spec and spec.submodule_search_locations) or ()
        ]
        paths = [file for root in roots for file in sorted(root.rglob("*.py"))]
        return paths or ([Path(spec.origin)] if spec and spec.origin else [])


@attrs.frozen(eq=False)
class PluginRule:
    """A rule of one plugin. Calling it raises `ConformanceError` if it is broken, or `NotRunError`."""

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
        """Run the rule. The examples are ignored: they are there so that all rules can be called alike."""
        __tracebackhide__ = True
        failures = []
        for what, fix in self.check():
            failures.append(Failure(self.name, what, fix))
        if failures:
            raise ConformanceError(_title(self.plugin), tuple(failures))


def check_plugin(
    name: str,
    *,
    examples: Mapping[str, Fields] | None = None,
    skip: Mapping[str, Mapping[str, str]] | None = None,
    jax: bool = False,
) -> PluginReport:
    """Run the rules of an installed plugin, and those of every component that it offers.

    `docs/plugins/testing.md` has the rules in words.

    Args:
        name: the plugin or its distribution, as `sentbed plugins` lists them. All plugins of a distribution
            are checked.
        examples: `KIND/NAME` of a component -> its `example`; see `check_component`.
        skip: `KIND/NAME` of a component -> rule -> reason for which it does not apply.
        jax: also test poolers and losses under JAX.

    Raises:
        ConformanceError: if rules are broken; lists all of them.
    """
    __tracebackhide__ = True
    of_plugin, of_components = _rules_of(name, examples, skip, jax=jax)
    report, failures = run_rules((rule.name, rule) for rule in of_plugin)
    reports: dict[str, Report] = {}
    for at, rules in of_components.items():
        reports[at], failures_of_component = run_rules(rules.items())
        for failure in failures_of_component:
            failures.append(attrs.evolve(failure, rule=f"{at}: {failure.rule}"))
    if failures:
        raise ConformanceError(_title(name), tuple(failures))
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
    """Return the rules of a plugin and of its components by id, each to be called.

    Arguments are those of `check_plugin`. With `must_run`, a rule of a component that cannot be run fails,
    unless `skip` gives a reason.
    """
    __tracebackhide__ = True
    of_plugin, of_components = _rules_of(name, examples, skip, jax, must_run)
    rules: dict[str, PluginRule | ComponentRule] = {rule.id: rule for rule in of_plugin}
    for of_component in of_components.values():
        for rule in of_component.values():
            rules[rule.id] = rule
    return rules


def _title(name: str) -> str:
    return f"the plugin `{name}` breaks rules"


def _rules_of(
    name: str,
    examples: Mapping[str, Fields] | None,
    skip: Mapping[str, Mapping[str, str]] | None,
    jax: bool,
    must_run: bool = False,
) -> tuple[list[PluginRule], dict[str, dict[str, ComponentRule]]]:
    """Return the rules of a plugin, and those of each of its components by `KIND/NAME`."""
    __tracebackhide__ = True
    plugins = load_plugins()
    examples, skip = dict(examples or {}), dict(skip or {})
    rules: list[PluginRule] = []
    of_components: dict[str, dict[str, ComponentRule]] = {}
    failures: list[Failure] = []
    offered: set[str] = set()
    for info in _named(name, plugins):
        rules.append(PluginRule("loads", info.name, partial(loads, info)))
        if info.status != "loaded":
            continue
        offers = {
            f"{offer.kind.removeprefix('recipe ')}/{offer.name}": offer
            for offer in _offers(plugins, info)
        }
        offered |= offers.keys()
        value = plugins.manager.get_plugin(info.key)
        plugin = _Plugin(info, value, offers, plugins, examples)
        for rule, check in RULES.items():
            rules.append(PluginRule(rule, info.name, partial(check, plugin)))
        for at, offer in offers.items():
            try:
                offer.value  # noqa: B018 - it is imported
            except PluginError as error:
                finding = (str(error), "mend what its hook returns")
                rules.append(PluginRule("offers", info.name, partial(iter, [finding])))
                continue
            if offer.kind not in KINDS:
                continue
            try:
                of_components[at] = component_rules(
                    offer.value,
                    kind=offer.kind,
                    example=examples.get(at),
                    skip=skip.get(at),
                    jax=jax,
                    must_run=must_run,
                )
            except ConformanceError as error:
                for failure in error.failures:
                    failures.append(attrs.evolve(failure, rule=f"{at}: {failure.rule}"))

    unknown = [at for at in {**examples, **skip} if at not in offered]
    if offered:
        for at in unknown:
            what = f"`{at}`, for which there is an example or a reason, is nothing that it offers"
            fix = "write `KIND/NAME`, such as `pooler/mean`"
            failures.append(Failure("examples", what, fix))

    if failures:
        raise ConformanceError(_title(name), tuple(failures))
    return rules, of_components


def _named(name: str, plugins: Plugins) -> list[Any]:
    """Return the plugins with this name or distribution; raise `ConformanceError` if there are none."""
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
        raise ConformanceError(_title(name), (Failure("installed", what, fix),))

    return infos


def loads(info: Any) -> Findings:
    """Its entry point can be imported, and its hooks return values of the right types."""
    if info.status != "loaded":
        place = f" @ {info.place}" if info.place else ""
        yield (
            f"`{info.key}` is {info.status}: {info.reason}{place}",
            f"mend that, and see `sentbed plugins` for `{info.status}`",
        )


def _offers(plugins: Plugins, info: Any) -> Iterator[Offer]:
    """Yield everything that a plugin offers, also under names that other distributions claim too."""
    claims = (claim for clash in plugins.clashes.values() for claim in clash.claims)
    every = (
        *plugins.components.values(),
        *claims,
        *plugins.commands.values(),
        *plugins.tables.values(),
    )
    for offer in dict.fromkeys(every):
        if (offer.distribution, offer.plugin) == (info.distribution, info.name):
            yield offer


def api(plugin: _Plugin) -> Findings:
    """It declares the API version that it is written for, or requires one exact version of sentbed."""
    try:
        needed = [
            Requirement(line) for line in requires(plugin.info.distribution) or ()
        ]
    except PackageNotFoundError:
        needed = []

    pinned = any(
        requirement.name == "sentbed" and str(requirement.specifier).startswith("==")
        for requirement in needed
    )
    if plugin.info.api is None and not pinned:
        yield (
            f"`{plugin.module}` does not say for which interface of sentbed it is written",
            f'write `sentbed_api = "{API_VERSION}"` in the module of the entry point',
        )


def hooks(plugin: _Plugin) -> Findings:
    """It implements a hook, and marks each function whose name is that of a hook."""
    if not plugin.info.kinds and not plugin.info.hooks:
        yield (
            "it implements no hook",
            "mark a function with `@sentbed.hookimpl`; see `docs/hooks.md`",
        )

    hook_names = [
        name
        for name, value in vars(hookspecs).items()
        if hasattr(value, "sentbed_spec")
    ]
    for name in hook_names:
        function = getattr(plugin.value, name, None)
        is_plugin_function = (
            inspect.isroutine(function) and function.__module__ == plugin.module
        )
        if is_plugin_function and not hasattr(function, "sentbed_impl"):
            yield (
                f"`{name}` is named like a hook, and is none",
                "decorate it with `@sentbed.hookimpl`",
            )


def imports(plugin: _Plugin) -> Findings:
    """Importing it is quick, and loads no heavy library."""
    request = {
        "path": [str(Path(place).resolve()) for place in sys.path],
        "heavy": HEAVY,
        "root": str(plugin.files[0].parent) if plugin.files else "",
        "module": plugin.module,
    }
    shortest = float("inf")
    for _ in range(TRIES):
        command = [sys.executable, "-c", _CODE, json.dumps(request)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            fix = f"`python -c 'import {plugin.module}'` shows where"
            yield f"in a new process, importing `{plugin.module}` ends in `{last}`", fix
            return
        seconds, heavy = json.loads(done.stdout.splitlines()[-1])
        for library, where in heavy:
            yield (
                f"the library `{library}` is loaded with the plugin, at {where}",
                "import it in the method that needs it, or in a module that only this method imports",
            )
        shortest = min(shortest, seconds)
        if heavy or shortest <= IMPORT_SECONDS:
            break

    if shortest > IMPORT_SECONDS:
        yield (
            f"importing `{plugin.module}` takes {shortest:.1f} s, and every command of sentbed waits for it "
            f"(allowed {IMPORT_SECONDS:g} s)",
            "do at first use what it does when imported, or offer its parts as `Lazy`",
        )


def private(plugin: _Plugin) -> Findings:
    """It imports nothing of core's own modules, which change without notice."""
    for file in plugin.files:
        try:
            nodes = list(ast.walk(ast.parse(file.read_bytes())))
        except (OSError, SyntaxError, ValueError) as error:
            yield (
                f"`{file}` cannot be read: {error}",
                "mend it, or leave it out of the package",
            )
            continue
        for node in nodes:
            if not isinstance(node, ast.Import | ast.ImportFrom) or getattr(
                node, "level", None
            ):
                continue
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in (f"{package}{alias.name}" for alias in node.names):
                if name.startswith(PRIVATE) and not name.startswith("sentbed.__"):
                    yield (
                        f"it imports `{name}`, which belongs to core alone, at {file}:{node.lineno}",
                        "use `sentbed`, `sentbed.protocols`, `sentbed.helpers`, or in a tool `sentbed.tools`",
                    )


def commands(plugin: _Plugin) -> Findings:
    """`--help` of each command works, and describes the command."""
    for name, command in plugin.offered("command"):
        yield from _help(name, command)


def _help(words: str, command: click.Command) -> Findings:
    from click.testing import CliRunner

    result = CliRunner().invoke(command, ["--help"], prog_name=f"sentbed {words}")
    if result.exit_code != 0:
        reason = result.output.strip() or repr(result.exception)
        yield (
            f"`sentbed {words} --help` ends with {result.exit_code}: {reason:.200}",
            "let the command be made without arguments, and import in its function what it needs",
        )
    elif not (command.help or "").strip():
        yield (
            f"`sentbed {words} --help` does not say what the command does",
            "write a docstring under its function",
        )

    for name, below in getattr(command, "commands", {}).items():
        yield from _help(f"{words} {name}", below)


def tables(plugin: _Plugin) -> Findings:
    """Each recipe table can be created, and its `problems` yields sentences for a minimal recipe."""
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
            yield (
                f"`[{name}]` with {example or 'no keys'}: {problem.message}",
                f'give keys: `check_plugin(..., examples={{"table/{name}": {{...}}}})`',
            )
        if problems:
            return

    recipe = plugin.recipe()
    for name, table in recipe.tables.items():
        fix = "yield (path below the table, a sentence that ends in what to do), and raise nothing"
        try:
            problems_of_table = list(table.problems(recipe, plugin.plugins, look=False))
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            yield f"`problems` of `[{name}]` raises {reason_of(error)}", fix
            continue
        for entry in problems_of_table:
            match entry:
                case (tuple(), str()):
                    continue
            yield f"`problems` of `[{name}]` yields {entry!r:.100}", fix


def sections(plugin: _Plugin) -> Findings:
    """`report_sections` returns valid sections for a run with scores and for a failed run without."""
    if "report_sections" not in plugin.info.hooks:
        return
    recipe = plugin.recipe()
    others = plugin.plugins.manager.get_plugins() - {plugin.value}
    hook = plugin.plugins.manager.subset_hook_caller("report_sections", others)
    facts = describe(plugin.plugins, None)
    protocol: dict[str, Any] = {"encoder": {}, "evaluator": {}}
    score = Score("example", "spearman", 50.0, protocol, "encoder", "example")
    endings: tuple[tuple[RunStatus, str | None, tuple[Score, ...]], ...] = (
        ("failed", "it was interrupted", ()),
        ("finished", None, (score,)),
    )
    for status, error, scores in endings:
        started = "2026-01-01T12:00:00+00:00"
        toml = resolved_toml(recipe)
        data = ReportData("example", status, error, started, 60.0, toml, facts, scores)
        with TemporaryDirectory() as directory:
            run = Run("example", Path(directory), recipe, facts)
            try:
                results = list(hook(run=run, data=data))
            except Exception as raised:  # noqa: BLE001 - this is what is looked for
                yield (
                    f"`report_sections` raises {reason_of(raised)} for a run that {status}",
                    "a run may end before it has scores; return no section then",
                )
                continue
        for returned in results:
            yield from _fits_in_report(returned)


def _fits_in_report(returned: Any) -> Findings:
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
                "take letters, digits and `-`",
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
        "api": api,
        "hooks": hooks,
        "imports": imports,
        "private": private,
        "commands": commands,
        "tables": tables,
        "sections": sections,
    }
)
