"""Test kit for plugins: it checks components and plugins against rules, and engines against a reference engine.

`parametrize_with_rules` makes one pytest case per rule. `docs/plugins/testing.md` explains the rules of
components and plugins, and `docs/engines.md` explains the rules of engines. Each rule of an engine is a
function `check_...`. It raises `AssertionError` with the rule, the case, the measured value and the allowed
value.

This module imports no tensor library, and `import sentbed` does not import this module.
"""

from __future__ import annotations

# mypy: implicit-reexport
import sys
from typing import TYPE_CHECKING

from sentbed.helpers import lazy as _lazy
from sentbed.kinds import KINDS as _KINDS

if TYPE_CHECKING:
    from sentbed_testing.backbone_contract import BackboneContract
    from sentbed_testing.component_contract import ComponentContract
    from sentbed_testing.component_under_test import NotRunError
    from sentbed_testing.conformance import (
        ComponentRule,
        ConformanceError,
        Failure,
        component_rules,
    )
    from sentbed_testing.data_contract import DataContract
    from sentbed_testing.engine_cases import PAIRS, Case, cases, cover, part
    from sentbed_testing.engine_checks import EngineRule, engine_rules
    from sentbed_testing.engine_encoding import check_encode, check_saved
    from sentbed_testing.engine_gradients import (
        check_derivative,
        check_frozen_columns,
        check_grad_cache,
        check_loss_and_gradients,
        check_towers,
        check_uneven_batch,
    )
    from sentbed_testing.engine_invariants import (
        check_counters_and_describe,
        check_dropout_advances,
        check_not_finite,
        check_state,
    )
    from sentbed_testing.engine_pair import EnginePair, batch
    from sentbed_testing.engine_steps import (
        check_clipping,
        check_momentum_and_queue,
        check_moving_average,
        check_steps,
    )
    from sentbed_testing.engine_transforms import check_transform
    from sentbed_testing.evaluator_contract import EvaluatorContract
    from sentbed_testing.intervention_contract import InterventionContract
    from sentbed_testing.loss_contract import LossContract
    from sentbed_testing.offers import offered
    from sentbed_testing.optimizer_contract import OptimizerContract
    from sentbed_testing.plugin_checks import (
        PluginRule,
        plugin_rules,
    )
    from sentbed_testing.pooler_contract import PoolerContract
    from sentbed_testing.pytest_parameters import parametrize_with_rules
    from sentbed_testing.schedule_contract import ScheduleContract
    from sentbed_testing.sentences import SENTENCES
    from sentbed_testing.similarity_contract import SimilarityContract
    from sentbed_testing.token_states import random_states
    from sentbed_testing.tracker_contract import TrackerContract
    from sentbed_testing.transform_contract import TransformContract

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)

# pytest shows the values in a failed assertion of the contracts, as it does in test modules.
if "pytest" in sys.modules:
    for _kind in (*_KINDS, "component", "module"):
        sys.modules["pytest"].register_assert_rewrite(f"{__name__}.{_kind}_contract")
