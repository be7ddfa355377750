"""Test kit for plugins: it checks components and plugins against rules, and runtimes against `cpu`.

`parametrize_with_rules` makes one pytest case per rule. `docs/plugins/testing.md` explains the rules of
components and plugins. `RuntimeContract` is the base class of a runtime's tests; see `docs/engines.md`.

This module imports no tensor library, and `import sentbed` does not import this module.
"""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed.helpers import lazy as _lazy

if TYPE_CHECKING:
    from sentbed_testing.component_under_test import NotRunError, offered
    from sentbed_testing.conformance import (
        ComponentRule,
        ConformanceError,
        Failure,
        component_rules,
    )
    from sentbed_testing.plugin_checks import (
        PluginRule,
        plugin_rules,
    )
    from sentbed_testing.pytest_parameters import parametrize_with_rules
    from sentbed_testing.runtime_contract import RuntimeContract
    from sentbed_testing.sentences import SENTENCES

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)
