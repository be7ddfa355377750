"""Conformance tests of components: `check_component` runs every rule of the kind."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""Findings of a rule: the fault, with figure and bound, and a clause with the remedy."""

Rule: TypeAlias = Callable[[Subject], Findings]

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
"""Name of the rule that some rule of the kind could be run."""

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
    passed: list[str] = []
    not_run: dict[str, str] = {}
    failures: list[Failure] = []
    for name, run in component_rules(
        cls, kind=kind, example=example, skip=skip, jax=jax, width=width
    ).items():
        try:
            run()
        except NotRunError as reason:
            not_run[name] = str(reason)
        except ConformanceError as error:
            failures += error.failures
        else:
            passed.append(name)
    if failures:
        raise ConformanceError(_title(cls), tuple(failures))
    return Report(tuple(passed), not_run)


def component_rules(
    cls: type[Any],
    *,
    kind: str | None = None,
    example: Mapping[str, Any] | None = None,
    skip: Mapping[str, str] | None = None,
    jax: bool = False,
    width: int = WIDTH,
) -> Mapping[str, Callable[[], None]]:
    """Return the rules of a component by name, each to be called; arguments as of `check_component`.

    A rule raises `ConformanceError` where it is broken, and `NotRunError`, which pytest takes for a skip,
    where it cannot be tried.
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
    subject = Subject(cls, kind, example or {}, jax, width)
    modules = {
        name: import_module(f"sentbed_testing.{name}")
        for name in (*GENERAL, *MODULES.get(kind, ()))
    }
    rules: dict[str, Rule] = {}
    awaited: dict[str, Mapping[str, str]] = {}
    for module in modules.values():
        rules |= module.RULES
        awaited |= getattr(module, "AWAITED", {})
    skip = skip or {}
    if unknown := sorted(set(skip) - {*rules, TRIED}):
        what = f"`skip` names `{unknown[0]}`, and a {kind} has no such rule"
        fix = f"name one of {', '.join(rules)}"
        raise ConformanceError(_title(cls), (Failure("skip", what, fix),))
    for rule, reason in skip.items():
        if not reason.strip():
            what = f"the rule `{rule}` is left out without a reason"
            fix = "say in `skip` why it does not apply to this component"
            raise ConformanceError(_title(cls), (Failure("skip", what, fix),))
    runs = {
        name: partial(_run, name, rules, subject, skip, awaited.get(name, {}))
        for name in rules
    }
    kind_rules = [
        name
        for module in MODULES.get(kind, ())
        for name in modules[module].RULES
        if name not in skip
    ]
    if kind_rules or kind not in MODULES:
        runs[TRIED] = partial(
            _require_tried, subject, [runs[name] for name in kind_rules], skip
        )
    return runs


def _require_tried(
    subject: Subject, kind_rules: Sequence[Callable[[], None]], skip: Mapping[str, str]
) -> None:
    """Raise `ConformanceError` if none of the kind's own rules can be run."""
    __tracebackhide__ = True
    if TRIED in skip:
        raise NotRunError(skip[TRIED])
    if not kind_rules:
        raise NotRunError(
            f"the kit knows no rule of the kind `{subject.kind}`; test what it does in a test of your own"
        )
    reasons = []
    for run in kind_rules:
        try:
            run()
        except NotRunError as reason:
            reasons.append(str(reason))
        except ConformanceError:
            return
        else:
            return
    what = f"none of the {len(kind_rules)} rules of the kind `{subject.kind}` could be run: {reasons[0]}"
    fix = "give an `example` whose `check` finds nothing, and install what is missing"
    raise ConformanceError(_title(subject.cls), (Failure(TRIED, what, fix),))


def parametrize_component(cls: type[Any], **options: Any) -> Any:
    """Return a pytest decorator that parametrizes a test with `rule`, a function for each rule.

    `options` are those of `check_component`.
    """
    import pytest

    rules = component_rules(cls, **options)
    return pytest.mark.parametrize(
        "rule", [pytest.param(rule, id=name) for name, rule in rules.items()]
    )


def _run(
    name: str,
    rules: Mapping[str, Rule],
    subject: Subject,
    skip: Mapping[str, str],
    awaited: Mapping[str, str],
) -> None:
    __tracebackhide__ = True
    if name in skip:
        raise NotRunError(skip[name])
    for first, reason in awaited.items():
        if first not in skip and _finds(first, rules[first], subject):
            raise NotRunError(reason)
    if failures := _failures(name, rules[name], subject):
        raise ConformanceError(_title(subject.cls), failures)


def _finds(name: str, rule: Rule, subject: Subject) -> bool:
    """Whether a rule has findings, other than that the component raises an error."""
    try:
        return any(failure.fix != _READ for failure in _failures(name, rule, subject))
    except NotRunError:
        return False


def _failures(name: str, rule: Rule, subject: Subject) -> tuple[Failure, ...]:
    """Return the failures of a rule; cached, since other rules may depend on it."""
    if name in subject.failures:
        return subject.failures[name]
    failures: list[Failure] = []
    try:
        failures += (Failure(name, what, fix) for what, fix in rule(subject))
    except SkipTest as reason:
        if not failures:
            raise NotRunError(str(reason)) from reason
    except PluginError as error:
        # Core's sentence about the component, without its advice to run this kit.
        failures.append(Failure(name, str(error).removesuffix(f"; {ADVICE}"), _READ))
    except Exception as error:  # noqa: BLE001 - whatever a component raises is a finding
        what = f"raised {type(error).__name__}: {_first_line(error)}{place(error, subject.cls)}"
        failures.append(Failure(name, what, _READ))
    return subject.failures.setdefault(name, tuple(failures))


def place(error: BaseException, cls: type[Any]) -> str:
    """Return ` at FILE:LINE` for the innermost frame of an error in the component's package."""
    frames = traceback.extract_tb(error.__traceback__)
    component_frames = [frame for frame in frames if is_own(frame.filename, cls)]
    return (
        f" at {component_frames[-1].filename}:{component_frames[-1].lineno}"
        if component_frames
        else ""
    )


def is_own(file: str, cls: type[Any]) -> bool:
    """Whether a file belongs to the package of a class."""
    package = sys.modules.get(cls.__module__.partition(".")[0])
    roots = [Path(root) for root in getattr(package, "__path__", ())]
    return any(Path(file).is_relative_to(root) for root in roots) or file == _file(cls)


def _file(cls: type[Any]) -> str | None:
    try:
        return inspect.getfile(cls)
    except (TypeError, OSError):
        return None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _title(cls: type[Any]) -> str:
    label = getattr(cls, "__qualname__", repr(cls))
    return f"the component `{label}` breaks the rules of its kind"
