"""Rules that components must keep: `component_rules` returns them."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import (
    Callable,
    Collection,
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
from sentbed.kinds import KINDS

from sentbed_testing.component_under_test import NotRunError, Subject, deduce_kind
from sentbed_testing.random_token_states import WIDTH

Findings: TypeAlias = Iterator[tuple[str, str]]
"""Pairs of a fault and a remedy, both as clauses. A fault contains the measured and the allowed value."""

Check: TypeAlias = Callable[[Subject], Findings]

MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "backbone": ("rules_backbone",),
        "pooler": ("rules_pooler",),
        "transform": ("rules_transform",),
        "loss": ("rules_loss",),
        "data": ("rules_data",),
        "evaluator": ("rules_evaluator",),
        "optimizer": ("rules_optimizer",),
        "schedule": ("rules_schedule",),
        "tracker": ("rules_tracker",),
        "runtime": ("rules_runtime",),
    }
)
"""Kind -> modules with rules that only this kind has."""

TRIED = "tried"
"""Name of the rule that is broken if none of the kind's rules could be run."""

GENERAL = ("rules_component_class", "rules_component_fields")
"""Modules with the rules of all kinds."""

_REMEDY_OF_EXCEPTION = (
    "read the line, and see `docs/plugins/testing.md` for what the rule does"
)
"""Remedy for an exception that the component raised while a rule ran."""


@attrs.frozen
class Failure:
    """A fault that a rule found."""

    rule: str
    what: str
    """The fault, with the measured and the allowed value."""
    fix: str
    """The remedy, as a clause."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}; {self.fix}"


class ConformanceError(AssertionError):
    """Raised if a component or a plugin breaks rules. The message lists all faults."""

    def __init__(self, title: str, failures: tuple[Failure, ...]) -> None:
        super().__init__("\n  ".join([f"{title}:", *_summary_lines(failures)]))
        self.failures = failures


def _summary_lines(failures: tuple[Failure, ...]) -> Iterator[str]:
    """Yield a line for all faults with the same rules and remedy: the first fault, and the number of others."""
    rules_of_fault: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        fault = (failure.what, failure.fix)
        rules_of_fault.setdefault(fault, []).append(failure.rule)

    faults: dict[tuple[str, str], list[str]] = {}
    for (what, fix), names in rules_of_fault.items():
        rules = ", ".join(dict.fromkeys(names))
        faults.setdefault((rules, fix), []).append(what)

    for (rules, fix), whats in faults.items():
        line = str(Failure(rules, whats[0], fix))
        if len(whats) > 1:
            line += f"; and {len(whats) - 1} more like it"
        yield line


@attrs.frozen(eq=False)
class ComponentRule:
    """A rule of one component.

    Calling it raises `ConformanceError` if the component breaks the rule. It raises `NotRunError` if the rule
    cannot be run or the component is exempt from it; pytest reports this as a skipped test.
    """

    name: str
    subject: Subject
    check: Check = attrs.field(repr=False)
    exemption: str | None = None
    """Reason why the rule does not apply to the component, if it does not."""
    prerequisites: Mapping[ComponentRule, str] = attrs.field(factory=dict, repr=False)
    """Another rule -> reason why this rule is not run if the other rule has findings."""
    must_run: bool = False
    """Whether the rule counts as broken if it cannot be run."""

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

        `example` replaces the example that `component_rules` was given, for example if a test has to create files
        first. `examples` holds the fields of several components by `KIND/NAME`, so that all rules of a plugin can
        be called with the same argument.
        """
        __tracebackhide__ = True
        if self.exemption is not None:
            raise NotRunError(self.exemption)
        if example is None and examples is not None:
            example = examples.get(self.path)
        if example is not None:
            self.subject.change_example(example)

        for rule, reason in self.prerequisites.items():
            if rule.has_findings():
                raise NotRunError(reason)

        try:
            failures = self.failures()
        except NotRunError as reason:
            if not self.must_run:
                raise
            what = f"it could not be run: {reason}"
            fix = "give what it needs, or say in `skip` why it does not apply"
            failures = (Failure(self.name, what, fix),)

        if failures:
            raise ConformanceError(_error_title(self.component), failures)

    def has_findings(self) -> bool:
        """Whether the rule has findings. Exceptions that the component raised do not count."""
        if self.exemption is not None:
            return False
        try:
            failures = self.failures()
        except NotRunError:
            return False
        return any(failure.fix != _REMEDY_OF_EXCEPTION for failure in failures)

    def failures(self) -> tuple[Failure, ...]:
        """Return the failures of the rule. They are cached, since the rule may be a prerequisite of others.

        Raises `NotRunError` if the rule cannot be run.
        """
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
            failures.append(Failure(self.name, str(error), _REMEDY_OF_EXCEPTION))
        except Exception as error:  # noqa: BLE001 - any exception of a component is a finding
            message = str(error).strip().partition("\n")[0]
            what = f"raised {type(error).__name__}: {message}{place(error, self.component)}"
            failures.append(Failure(self.name, what, _REMEDY_OF_EXCEPTION))

        results[self.name] = tuple(failures)
        return results[self.name]


def component_rules(
    cls: type[Any],
    *,
    kind: str | None = None,
    example: Mapping[str, Any] | None = None,
    skip: Mapping[str, str] | None = None,
    width: int = WIDTH,
    must_run: bool = False,
) -> dict[str, ComponentRule]:
    """Return the rules of a component by name. Calling a rule runs it.

    `docs/plugins/testing.md` explains the rules.

    Args:
        cls: class of the component.
        kind: `pooler`, `loss`, ...; by default, the kind is deduced from the class.
        example: fields, as in a recipe, if the class cannot be created or tested without them.
        skip: rule -> reason why the rule does not apply to this component.
        width: dimension of the states and vectors with which a component is tested, such as a pooler or a loss.
        must_run: whether a rule counts as broken if it cannot be run, unless `skip` gives a reason.

    Raises:
        ConformanceError: if nothing tells the kind, or `skip` names an unknown rule or has no reason.
    """
    __tracebackhide__ = True
    kind = kind or deduce_kind(cls)
    if kind is None or kind not in KINDS:
        what = "nothing tells which kind of component it is"
        if kind is not None:
            what = f"there is no kind {kind!r}"
        fix = f"say `kind`, one of {', '.join(KINDS)}"
        raise ConformanceError(_error_title(cls), (Failure("kind", what, fix),))

    skip = skip or {}
    subject = Subject(cls, kind, example or {}, width)
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
        check = partial(_require_one_run, kind_rules=kind_rules)
        rules[TRIED] = ComponentRule(TRIED, subject, check, skip.get(TRIED))
    return rules


def _require_reasons(
    cls: type[Any],
    kind: str,
    skip: Mapping[str, str],
    rules: Collection[str],
) -> None:
    """Raise `ConformanceError` if `skip` names a rule that the kind does not have, or gives no reason."""
    __tracebackhide__ = True
    unknown = sorted(set(skip) - {*rules, TRIED})
    if unknown:
        what = f"`skip` names `{unknown[0]}`, and a {kind} has no such rule"
        fix = f"name one of {', '.join(rules)}"
        raise ConformanceError(_error_title(cls), (Failure("skip", what, fix),))

    for rule, reason in skip.items():
        if not reason.strip():
            what = f"the rule `{rule}` is left out without a reason"
            fix = "say in `skip` why it does not apply to this component"
            raise ConformanceError(_error_title(cls), (Failure("skip", what, fix),))


def _require_one_run(subject: Subject, kind_rules: Sequence[ComponentRule]) -> Findings:
    """Yield a finding if none of the rules that only this kind has can be run."""
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
    """Return ` at FILE:LINE` for the innermost line in the component's package that led to an error.

    The text is empty if there is no such line.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_in_package(frame.filename, cls):
            return f" at {frame.filename}:{frame.lineno}"
    return ""


def is_in_package(file: str, cls: type[Any]) -> bool:
    """Whether a file belongs to the package of a class."""
    package = sys.modules.get(cls.__module__.partition(".")[0])
    for root in getattr(package, "__path__", ()):
        if Path(file).is_relative_to(root):
            return True
    try:
        return file == inspect.getfile(cls)
    except (TypeError, OSError):
        return False


def _error_title(cls: type[Any]) -> str:
    label = getattr(cls, "__qualname__", repr(cls))
    return f"the component `{label}` breaks the rules of its kind"
