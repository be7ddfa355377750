"""Conformance rules of components: `check_component` runs them all, `component_rules` returns them."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias
from unittest import SkipTest

import attrs
from sentbed.errors import PluginError
from sentbed.helpers import ADVICE
from sentbed.kinds import KINDS

from sentbed_testing.component_under_test import NotRunError, Subject, deduce_kind
from sentbed_testing.random_token_states import WIDTH

Findings: TypeAlias = Iterator[tuple[str, str]]
"""Findings of a rule, each a pair: the fault, with figure and bound, and a clause with the remedy."""

Check: TypeAlias = Callable[[Subject], Findings]

MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "backbone": ("rules_backbone",),
        "intervention": ("rules_intervention",),
        "pooler": ("rules_pooler", "rules_on_engines"),
        "transform": ("rules_transform",),
        "similarity": ("rules_similarity",),
        "loss": ("rules_loss", "rules_on_engines"),
        "data": ("rules_data",),
        "evaluator": ("rules_evaluator",),
        "optimizer": ("rules_optimizer",),
        "schedule": ("rules_schedule",),
        "tracker": ("rules_tracker",),
        "runtime": ("rules_runtime",),
        "importer": ("rules_importer",),
        "sampler": ("rules_sampler",),
    }
)
"""Kind -> modules of its rules, besides those of every component."""

TRIED = "tried"
"""Name of the rule that at least one rule of the kind must have been run."""

GENERAL = ("rules_component_class", "rules_component_fields")
"""Modules of the rules of every component."""

_READ = "read the line, and see `docs/plugins/testing.md` for what the rule does"


@attrs.frozen
class Failure:
    """Violation of a rule."""

    rule: str
    what: str
    """Fault, with figure and bound."""
    fix: str
    """Remedy, a clause."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}; {self.fix}"


@attrs.frozen
class Report:
    """Results of the rules."""

    passed: tuple[str, ...]
    not_run: Mapping[str, str]
    """Rule -> reason for which it was not run."""

    def __str__(self) -> str:
        lines = [f"passed: {', '.join(self.passed) or 'no rule'}"]
        lines += [f"not run: {rule}: {reason}" for rule, reason in self.not_run.items()]
        return "\n".join(lines)


class ConformanceError(AssertionError):
    """Raised if a component breaks rules of its kind; the message lists all of them."""

    def __init__(self, title: str, failures: tuple[Failure, ...]) -> None:
        super().__init__("\n  ".join([f"{title}:", *_lines(failures)]))
        self.failures = failures


def _lines(failures: tuple[Failure, ...]) -> Iterator[str]:
    """Yield a line per remedy: the rules that found the fault, the first finding, and how many more."""
    rules: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        rules.setdefault((failure.what, failure.fix), []).append(failure.rule)
    alike: dict[tuple[str, str], list[str]] = {}
    for (what, fix), names in rules.items():
        alike.setdefault((", ".join(dict.fromkeys(names)), fix), []).append(what)
    for (rule, fix), findings in alike.items():
        line = str(Failure(rule, findings[0], fix))
        if len(findings) > 1:
            line += f"; and {len(findings) - 1} more like it"
        yield line


def check_component(
    cls: type[Any],
    *,
    kind: str | None = None,
    example: Mapping[str, Any] | None = None,
    skip: Mapping[str, str] | None = None,
    jax: bool = False,
    width: int = WIDTH,
) -> Report:
    """Run every rule of a component's kind; return which rules passed and which could not be run.

    `docs/plugins/testing.md` has the rules in words.

    Args:
        cls: the component's class.
        kind: `pooler`, `loss`, ...; by default deduced from the class.
        example: fields, as in a recipe, if the class cannot be created or tested without them.
        skip: rule -> reason for which it does not apply to this component.
        jax: also test a pooler or a loss under JAX, on all devices that JAX finds.
        width: dimension of the states and vectors that a pooler, a transform or a loss is tested with.

    Raises:
        ConformanceError: if rules are broken, or none of the kind's own could be run; lists all of them.
    """
    __tracebackhide__ = True
    rules = component_rules(
        cls, kind=kind, example=example, skip=skip, jax=jax, width=width
    )
    report, failures = run_rules(rules.items())
    if failures:
        raise ConformanceError(_title(cls), tuple(failures))
    return report


def run_rules(
    rules: Iterable[tuple[str, Callable[[], None]]],
) -> tuple[Report, list[Failure]]:
    """Run rules, each with its name; return which passed and which could not be run, and all failures."""
    passed: list[str] = []
    not_run: dict[str, str] = {}
    failures: list[Failure] = []
    for name, rule in rules:
        try:
            rule()
        except NotRunError as reason:
            not_run[name] = str(reason)
        except ConformanceError as error:
            failures += error.failures
        else:
            passed.append(name)

    return Report(tuple(passed), not_run), failures


@attrs.frozen(eq=False)
class ComponentRule:
    """A rule of one component.

    Calling it raises `ConformanceError` if the component breaks the rule, and `NotRunError`, which pytest
    reports as a skip, if the rule cannot be run or the component is exempt.
    """

    name: str
    subject: Subject
    check: Check = attrs.field(repr=False)
    exemption: str | None = None
    """Reason for which the rule does not apply to the component."""
    prerequisites: Mapping[ComponentRule, str] = attrs.field(factory=dict, repr=False)
    """Other rule -> reason for which this rule is not run if the other one has findings."""
    must_run: bool = False
    """Whether it fails if it cannot be run."""

    @property
    def component(self) -> type[Any]:
        """Class of the component."""
        return self.subject.cls

    @property
    def id(self) -> str:
        """Id of the test, such as `pooler/mean/padding`."""
        return f"{self.path}/{self.name}"

    @property
    def path(self) -> str:
        """`KIND/NAME` of the component."""
        name = getattr(self.component, "name", self.component.__qualname__)
        return f"{self.subject.kind}/{name}"

    def __call__(
        self,
        example: Mapping[str, Any] | None = None,
        examples: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Run the rule.

        `example` replaces the fields given to `component_rules`, e.g. by files of a test. `examples` has the
        fields of several components by `KIND/NAME`, and can be passed to every rule of a plugin.
        """
        __tracebackhide__ = True
        if example is None and examples is not None:
            example = examples.get(self.path)
        if self.exemption is not None:
            raise NotRunError(self.exemption)
        if example is not None:
            self.subject.change_example(example)
        for rule, reason in self.prerequisites.items():
            if rule.has_findings():
                raise NotRunError(reason)
        failures = self._required_failures() if self.must_run else self.failures()
        if failures:
            raise ConformanceError(_title(self.component), failures)

    def has_findings(self) -> bool:
        """Whether the rule has findings besides exceptions that the component raised."""
        if self.exemption is not None:
            return False
        try:
            failures = self.failures()
        except NotRunError:
            return False
        return any(failure.fix != _READ for failure in failures)

    def _required_failures(self) -> tuple[Failure, ...]:
        try:
            return self.failures()
        except NotRunError as reason:
            what = f"it could not be run: {reason}"
            fix = "give what it needs, or say in `skip` why it does not apply"
            return (Failure(self.name, what, fix),)

    def failures(self) -> tuple[Failure, ...]:
        """Return the failures of the rule; cached, since other rules may depend on it."""
        results = self.subject.failures
        if self.name in results:
            return results[self.name]
        failures: list[Failure] = []
        try:
            for what, fix in self.check(self.subject):
                failures.append(Failure(self.name, what, fix))
        except SkipTest as reason:
            if not failures:
                raise NotRunError(str(reason)) from reason
        except PluginError as error:
            # Core's sentence about the component, without its advice to run this kit.
            what = str(error).removesuffix(f"; {ADVICE}")
            failures.append(Failure(self.name, what, _READ))
        except Exception as error:  # noqa: BLE001 - whatever a component raises is a finding
            message = str(error).strip().partition("\n")[0]
            what = f"raised {type(error).__name__}: {message}{place(error, self.component)}"
            failures.append(Failure(self.name, what, _READ))

        results[self.name] = tuple(failures)
        return results[self.name]


def component_rules(
    cls: type[Any],
    *,
    kind: str | None = None,
    example: Mapping[str, Any] | None = None,
    skip: Mapping[str, str] | None = None,
    jax: bool = False,
    width: int = WIDTH,
    must_run: bool = False,
) -> dict[str, ComponentRule]:
    """Return the rules of a component by name, each to be called; arguments as for `check_component`.

    With `must_run`, a rule that cannot be run fails, unless `skip` gives a reason.
    """
    __tracebackhide__ = True
    kind = kind or deduce_kind(cls)
    if kind is None or kind not in KINDS:
        what = (
            f"there is no kind {kind!r}"
            if kind
            else "nothing tells which kind of component it is"
        )
        fix = f"say `kind`, one of {', '.join(KINDS)}"
        raise ConformanceError(_title(cls), (Failure("kind", what, fix),))

    skip = skip or {}
    subject = Subject(cls, kind, example or {}, jax, width)
    rules: dict[str, ComponentRule] = {}
    prerequisites: dict[str, Mapping[str, str]] = {}
    kind_rules: list[ComponentRule] = []
    for module_name in (*GENERAL, *MODULES.get(kind, ())):
        module = import_module(f"sentbed_testing.{module_name}")
        prerequisites |= getattr(module, "PREREQUISITES", {})
        for name, check in module.RULES.items():
            rule = ComponentRule(name, subject, check, skip.get(name))
            rules[name] = attrs.evolve(rule, must_run=must_run)
            if module_name not in GENERAL and name not in skip:
                kind_rules.append(rule)

    _require_reasons(cls, kind, skip, rules)
    for name, reasons in prerequisites.items():
        earlier = {rules[other]: reason for other, reason in reasons.items()}
        rules[name] = attrs.evolve(rules[name], prerequisites=earlier)
    if kind_rules or kind not in MODULES:
        check = partial(_any_is_tried, kind_rules=kind_rules)
        rules[TRIED] = ComponentRule(TRIED, subject, check, skip.get(TRIED))
    return rules


def _require_reasons(
    cls: type[Any], kind: str, skip: Mapping[str, str], rules: Collection[str]
) -> None:
    """Raise `ConformanceError` if `skip` names no rule of the kind, or gives no reason."""
    __tracebackhide__ = True
    unknown = sorted(set(skip) - {*rules, TRIED})
    if unknown:
        what = f"`skip` names `{unknown[0]}`, and a {kind} has no such rule"
        fix = f"name one of {', '.join(rules)}"
        raise ConformanceError(_title(cls), (Failure("skip", what, fix),))
    for rule, reason in skip.items():
        if not reason.strip():
            what = f"the rule `{rule}` is left out without a reason"
            fix = "say in `skip` why it does not apply to this component"
            raise ConformanceError(_title(cls), (Failure("skip", what, fix),))


def _any_is_tried(subject: Subject, kind_rules: Sequence[ComponentRule]) -> Findings:
    """Yield a finding if none of the kind's own rules can be run."""
    if not kind_rules:
        raise NotRunError(
            f"the kit knows no rule of the kind `{subject.kind}`; test what it does in a test of your own"
        )
    reasons = []
    for rule in kind_rules:
        try:
            rule.failures()
        except NotRunError as reason:
            reasons.append(str(reason))
        else:
            return

    yield (
        f"none of the {len(kind_rules)} rules of the kind `{subject.kind}` could be run: {reasons[0]}",
        "give an `example` whose `check` finds nothing, and install what is missing",
    )


def place(error: BaseException, cls: type[Any]) -> str:
    """Return ` at FILE:LINE` for the innermost frame of an error in the component's package."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_own(frame.filename, cls):
            return f" at {frame.filename}:{frame.lineno}"
    return ""


def is_own(file: str, cls: type[Any]) -> bool:
    """Whether a file belongs to the package of a class."""
    package = sys.modules.get(cls.__module__.partition(".")[0])
    for root in getattr(package, "__path__", ()):
        if Path(file).is_relative_to(root):
            return True
    return file == _file(cls)


def _file(cls: type[Any]) -> str | None:
    try:
        return inspect.getfile(cls)
    except (TypeError, OSError):
        return None


def _title(cls: type[Any]) -> str:
    label = getattr(cls, "__qualname__", repr(cls))
    return f"the component `{label}` breaks the rules of its kind"
