"""Contracts of components and plugins: classes of pytest tests, which a plugin's test module inherits from.

`docs/plugins/testing.md` explains them. This module imports no tensor library, and `import sentbed` does not
import this module.
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
    from sentbed_testing.data_contract import DataContract
    from sentbed_testing.evaluator_contract import EvaluatorContract
    from sentbed_testing.intervention_contract import InterventionContract
    from sentbed_testing.loss_contract import LossContract
    from sentbed_testing.offers import offered
    from sentbed_testing.optimizer_contract import OptimizerContract
    from sentbed_testing.plugin_contract import PluginContract, contracts_of
    from sentbed_testing.pooler_contract import PoolerContract
    from sentbed_testing.prompt_contract import PromptContract
    from sentbed_testing.runtime_contract import RuntimeContract
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
    for _kind in (*_KINDS, "component", "module", "plugin"):
        sys.modules["pytest"].register_assert_rewrite(f"{__name__}.{_kind}_contract")
