"""One pytest case per rule: `parametrize_with_rules`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from sentbed_testing.conformance import component_rules

if TYPE_CHECKING:
    import pytest

    from sentbed_testing.conformance import ComponentRule
    from sentbed_testing.engine_checks import EngineRule
    from sentbed_testing.plugin_checks import PluginRule

Rules: TypeAlias = "Mapping[str, ComponentRule | EngineRule | PluginRule]"


def parametrize_with_rules(
    subjects: Iterable[type[Any] | Rules], **options: Any
) -> pytest.MarkDecorator:
    """Return a pytest decorator that parametrizes a test with `rule`, a callable that the test calls.

    A broken rule fails the test; a rule that cannot be run, or from which the component is exempt, skips it
    with the reason. Ids look like `pooler/mean/padding` (component), `cpu/encode/bert/mean/info-nce` (engine)
    and `plugin/poolers/imports` (plugin).

    Args:
        subjects: classes of components, and what `component_rules`, `engine_rules` or `plugin_rules` returns.
        options: those of `component_rules` for the classes, such as `skip` and `must_run`.

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
