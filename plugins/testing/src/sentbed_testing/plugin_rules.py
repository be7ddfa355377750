"""Rules of a plugin as a whole, and of everything that it offers: `check_plugin`."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
from packaging.requirements import Requirement
from sentbed import API_VERSION, hookspecs
from sentbed.errors import PluginError, suggest
from sentbed.kinds import KINDS
from sentbed.tools import Offer, Plugins, load_plugins

from sentbed_testing.conformance import (
    ConformanceError,
    Failure,
    Findings,
    Report,
    check_component,
)
from sentbed_testing.heavy_imports import HEAVY, WATCH

IMPORT_SECONDS = 0.5
"""Longest processor time that importing a plugin may add to every command of sentbed."""
TRIES = 3
"""Number of times that a slow import is measured; the shortest counts."""
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


@attrs.frozen
class PluginReport:
    """Results of the rules of a plugin and of its components."""

    name: str
    passed: tuple[str, ...]
    components: Mapping[str, Report]
    """`KIND/NAME` -> report of the component."""

    @property
    def not_run(self) -> Mapping[str, str]:
        """`KIND/NAME: RULE` -> reason for which it was not run."""
        return {
            f"{component}: {rule}": reason
            for component, report in self.components.items()
            for rule, reason in report.not_run.items()
        }

    def __str__(self) -> str:
        lines = [f"{self.name}: passed: {', '.join(self.passed)}"]
        for component, report in self.components.items():
            lines += [f"{component}: {line}" for line in str(report).splitlines()]
        return "\n".join(lines)


@attrs.frozen
class _Plugin:
    """A loaded plugin, as its rules see it."""

    info: Any
    """What the registry knows of it."""
    value: object
    """What its entry point names."""
    offers: Mapping[str, Offer]
    """`KIND/NAME` -> what it offers."""

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
        name: the plugin or its distribution, as `sentbed plugins` lists them. Of a distribution with
            several plugins, all are checked.
        examples: `KIND/NAME` of a component -> its `example`; see `check_component`.
        skip: `KIND/NAME` of a component -> rule -> reason for which it does not apply.
        jax: also test poolers and losses under JAX.

    Raises:
        ConformanceError: if rules are broken; lists all of them.
    """
    __tracebackhide__ = True
    plugins = load_plugins()
    examples, skip = dict(examples or {}), dict(skip or {})
    title = f"the plugin `{name}` breaks rules"
    infos = [
        info
        for info in plugins.plugins
        if name in (info.name, info.distribution, info.key)
    ]
    if not infos:
        names = sorted(
            {
                name
                for info in plugins.plugins
                for name in (info.name, info.distribution)
            }
        )
        what = f"no installed plugin is called `{name}`"
        close = suggest(name, names).partition(" Choose")[0]
        fix = f"install it (`pip install -e DIRECTORY`) with an entry point in the group `sentbed`.{close}"
        raise ConformanceError(title, (Failure("installed", what, fix),))
    passed: list[str] = []
    failures: list[Failure] = []
    reports: dict[str, Report] = {}
    for info in infos:
        if info.status != "loaded":
            place = f" @ {info.place}" if info.place else ""
            what = f"`{info.key}` is {info.status}: {info.reason}{place}"
            failures.append(
                Failure(
                    "loads",
                    what,
                    f"mend that, and see `sentbed plugins` for `{info.status}`",
                )
            )
            continue
        offers = {
            f"{offer.kind}/{offer.name}": offer for offer in _offers(plugins, info)
        }
        plugin = _Plugin(info, plugins.manager.get_plugin(info.key), offers)
        for rule, findings in RULES.items():
            broken = [Failure(rule, what, fix) for what, fix in findings(plugin)]
            failures += broken
            if not broken:
                passed.append(rule)
        for at, offer in offers.items():
            more: dict[str, Any] = {
                "example": examples.pop(at, None),
                "skip": skip.pop(at, None),
                "jax": jax,
            }
            try:
                value = offer.value
                if offer.kind in KINDS:
                    reports[at] = check_component(value, kind=offer.kind, **more)
            except PluginError as error:
                failures.append(
                    Failure("offers", str(error), "mend what its hook returns")
                )
            except ConformanceError as error:
                failures += (
                    attrs.evolve(failure, rule=f"{at}: {failure.rule}")
                    for failure in error.failures
                )
    for at in (*examples, *skip):
        what = f"`{at}`, for which there is an example or a reason, is nothing that it offers"
        failures.append(
            Failure("examples", what, "write `KIND/NAME`, such as `pooler/mean`")
        )
    if failures:
        raise ConformanceError(title, tuple(failures))
    return PluginReport(
        name, ("loads", *dict.fromkeys(passed)), MappingProxyType(reports)
    )


def _offers(plugins: Plugins, info: Any) -> Iterator[Offer]:
    """Yield what a plugin offers, also under a name that others claim."""
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
    """It says for which interface it is written, or needs one version of sentbed."""
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
    """It implements a hook, and marks each function that is named like one."""
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


RULES: Mapping[str, Callable[[_Plugin], Findings]] = MappingProxyType(
    {"api": api, "hooks": hooks, "imports": imports, "private": private}
)
