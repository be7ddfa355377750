"""Core's API for plugins that offer commands or reports: recipes, runs, the registry.

A component does not need it: it uses `sentbed.protocols`, `sentbed.hookspecs` and `sentbed.helpers`. Names are
imported when they are first used.
"""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed._lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from sentbed._cli.common import (
        FAILED,
        set_option,
        trust_option,
    )
    from sentbed._cli.plugins import columns
    from sentbed._document.extends import EXTENDS
    from sentbed._document.overrides import apply_overrides, set_values
    from sentbed._document.structuring import parts_in, structure, unstructure
    from sentbed._encoder.batching import WINDOW, Progress, distinct_texts
    from sentbed._encoder.encoder import engine_of, self_contained
    from sentbed._encoder.prompt_tokenizer import PromptTokenizer
    from sentbed._encoder.saved_encoder import (
        BACKBONE,
        ENCODER_FILE,
        encoder_table,
        saved_recipe,
    )
    from sentbed._files import locked
    from sentbed._json import from_plain, plain
    from sentbed._locations import mentions
    from sentbed._recipe.checks import check, check_components
    from sentbed._recipe.component_compatibility import (
        misfits,
        runtime_misfits,
    )
    from sentbed._recipe.component_notes import naming_components
    from sentbed._recipe.load import (
        component_of,
        load_recipe,
        part_of,
        read_document,
        structure_recipe,
    )
    from sentbed._recipe.recipe import (
        RESOLVED,
        SCHEMA,
        decisive,
        first_stages,
        resolved_toml,
        runs_code,
    )
    from sentbed._recipe.recipe_differences import differences
    from sentbed._registry.computing_code import (
        code_of_package,
        components_of,
        computing_code,
    )
    from sentbed._registry.distribution_catalog import catalog, owner_of
    from sentbed._registry.offers import TABLE, Offer
    from sentbed._registry.registry import Plugins, load_plugins
    from sentbed._run.encoder_building import head_seed
    from sentbed._run.manifest import MANIFEST
    from sentbed._run.report_json import record_json
    from sentbed._run.run_directory import ENCODER, new_directory, saved_encoders
    from sentbed._run.runner import (
        evaluate_trained,
        go_on,
        run_in,
        train_first_stages,
    )
    from sentbed._run.trainer_inputs import sampler_of
    from sentbed._run.training_states import (
        CHECKPOINTS,
        STATES,
        newest_state,
        write_state,
    )
    from sentbed._toml import Document, KeyPath, node_of

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)
