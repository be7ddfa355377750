"""All rules of a component at once."""

from __future__ import annotations

from sentbed_testing import ConformanceError, NotRunError, component_rules


def check_component(cls, **options):
    """Run all rules of a component; return those that passed, and the reason for each that was not run."""
    passed = []
    not_run = {}
    failures = []
    for name, rule in component_rules(cls, **options).items():
        try:
            rule()
        except NotRunError as reason:
            not_run[name] = str(reason)
        except ConformanceError as error:
            failures += error.failures
        else:
            passed.append(name)
    if failures:
        raise ConformanceError(cls.__name__, tuple(failures))
    return passed, not_run
