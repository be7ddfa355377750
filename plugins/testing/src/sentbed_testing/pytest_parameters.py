"""The decorator `parametrize_with_rules`, which makes one pytest case per rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from sentbed_testing.conformance import component_rules

if TYPE_CHECKING:
    import pytest

    from sentbed_testing.conformance import ComponentRule
    from sentbed_testing.plugin_checks import PluginRule

Rules: TypeAlias = "Mapping[str, ComponentRule | PluginRule]"
"""Rules by name or id."""


def parametrize_with_rules(
    subjects: Iterable[type[Any] | Rules], **options: Any
) -> pytest.MarkDecorator:
    """Return a pytest decorator that gives a test the argument `rule`. The test calls `rule()`.

    The test fails if the rule is broken. It is skipped, with the reason, if the rule cannot be run or the
    component is exempt from it. Ids look like `pooler/mean/padding` (component) and
    `plugin/poolers/imports` (plugin).

    Args:
        subjects: classes of components, or results of `component_rules` or `plugin_rules`.
        options: arguments of `component_rules` for the classes, such as `skip` and `must_run`.

    Raises:
        ValueError: if there is no rule.
    """
    import pytest

    parameters = []
    for subject in subjects:
        if isinstance(subject, type):
            rules: Rules = component_rules(subject, **options)
        else:
            rules = subject
        for rule in rules.values():
            parameters.append(pytest.param(rule, id=rule.id))

    if not parameters:
        raise ValueError("there is no rule to try; name the class of a component")
    return pytest.mark.parametrize("rule", parameters)
