"""What tools may use of core: recipes, runs, the registry, the vector store.

Components need none of it: they have `sentbed.protocols`, `sentbed.hookspecs` and `sentbed.helpers`. A name
is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentbed._cli.evaluate import progress_bars
    from sentbed._cli.options import FAILED, set_before_axes, set_option
    from sentbed._document.extends import EXTENDS, leaves
    from sentbed._document.overrides import apply_overrides, set_values
    from sentbed._document.structure import KIND_OF, structure, unstructure
    from sentbed._document.toml import Document, KeyPath
    from sentbed._encoder.batching import WINDOW, encode_into
    from sentbed._encoder.encoder import ENCODER_FILE, saved_recipe
    from sentbed._encoder.vector_store import LIMIT_VARIABLE, VectorStore
    from sentbed._locks import is_locked, locked
    from sentbed._recipe.checks import check, test_data_problem
    from sentbed._recipe.fit import REASONS, TEMPLATE, misfits, needs_of
    from sentbed._recipe.load import component_of, executor_of, load_recipe, read_document, structure_recipe
    from sentbed._recipe.prompts import (
        MASK,
        Demonstration,
        Prompt,
        PromptTokenizer,
        ResolvedPrompt,
        Template,
        lines_of,
        parse_template,
    )
    from sentbed._recipe.recipe import (
        MAIN_ENCODER,
        RESOLVED,
        SCHEMA,
        Checkpoint,
        EncoderRecipe,
        Recipe,
        Stage,
        first_stages,
        resolved_toml,
    )
    from sentbed._recipe.shared_pass import groups
    from sentbed._recipe.show import (
        OPTIONAL,
        REQUIRED,
        default_of,
        default_text,
        describe_table,
        example,
        field_docs,
        hints_of,
        is_plain,
        tables,
        type_name,
    )
    from sentbed._registry.catalog import DISTRIBUTIONS, OURS
    from sentbed._registry.registry import GROUP, KINDS, ComponentInfo, Plugins, load_plugins
    from sentbed._registry.rules import ATTRIBUTES, METHODS, NEEDED
    from sentbed._registry.settings import Settings
    from sentbed._run.context import RunContext
    from sentbed._run.manifest import describe, peak_memory_gib
    from sentbed._run.processes import done_elsewhere
    from sentbed._run.record import plain, record_json, score_of, score_record
    from sentbed._run.resume import branch, differences, resume
    from sentbed._run.runner import MANIFEST, build_encoder, execute, new_directory
    from sentbed._run.sampling import Sampler
    from sentbed._run.score_items import attach_items, keep_items

__all__ = [
    "ATTRIBUTES",
    "DISTRIBUTIONS",
    "ENCODER_FILE",
    "EXTENDS",
    "FAILED",
    "GROUP",
    "KINDS",
    "KIND_OF",
    "LIMIT_VARIABLE",
    "MAIN_ENCODER",
    "MANIFEST",
    "MASK",
    "METHODS",
    "NEEDED",
    "OPTIONAL",
    "OURS",
    "REASONS",
    "REQUIRED",
    "RESOLVED",
    "SCHEMA",
    "TEMPLATE",
    "WINDOW",
    "Checkpoint",
    "ComponentInfo",
    "Demonstration",
    "Document",
    "EncoderRecipe",
    "KeyPath",
    "Plugins",
    "Prompt",
    "PromptTokenizer",
    "Recipe",
    "ResolvedPrompt",
    "RunContext",
    "Sampler",
    "Settings",
    "Stage",
    "Template",
    "VectorStore",
    "apply_overrides",
    "attach_items",
    "branch",
    "build_encoder",
    "check",
    "component_of",
    "default_of",
    "default_text",
    "describe",
    "describe_table",
    "differences",
    "done_elsewhere",
    "encode_into",
    "example",
    "execute",
    "executor_of",
    "field_docs",
    "first_stages",
    "groups",
    "hints_of",
    "is_locked",
    "is_plain",
    "keep_items",
    "leaves",
    "lines_of",
    "load_plugins",
    "load_recipe",
    "locked",
    "misfits",
    "needs_of",
    "new_directory",
    "parse_template",
    "peak_memory_gib",
    "plain",
    "progress_bars",
    "read_document",
    "record_json",
    "resolved_toml",
    "resume",
    "saved_recipe",
    "score_of",
    "score_record",
    "set_before_axes",
    "set_option",
    "set_values",
    "structure",
    "structure_recipe",
    "tables",
    "test_data_problem",
    "type_name",
    "unstructure",
]

_MODULES = {
    "_cli.evaluate": "progress_bars",
    "_cli.options": "FAILED set_before_axes set_option",
    "_document.extends": "EXTENDS leaves",
    "_document.overrides": "apply_overrides set_values",
    "_document.structure": "KIND_OF structure unstructure",
    "_document.toml": "Document KeyPath",
    "_encoder.batching": "WINDOW encode_into",
    "_encoder.encoder": "ENCODER_FILE saved_recipe",
    "_encoder.vector_store": "LIMIT_VARIABLE VectorStore",
    "_locks": "is_locked locked",
    "_recipe.checks": "check test_data_problem",
    "_recipe.fit": "REASONS TEMPLATE misfits needs_of",
    "_recipe.load": "component_of executor_of load_recipe read_document structure_recipe",
    "_recipe.prompts": "MASK Demonstration Prompt PromptTokenizer ResolvedPrompt Template lines_of "
    "parse_template",
    "_recipe.recipe": "MAIN_ENCODER RESOLVED SCHEMA Checkpoint EncoderRecipe Recipe Stage "
    "first_stages resolved_toml",
    "_recipe.shared_pass": "groups",
    "_recipe.show": "OPTIONAL REQUIRED default_of default_text describe_table example field_docs "
    "hints_of is_plain tables type_name",
    "_registry.catalog": "DISTRIBUTIONS OURS",
    "_registry.registry": "GROUP KINDS ComponentInfo Plugins load_plugins",
    "_registry.rules": "ATTRIBUTES METHODS NEEDED",
    "_registry.settings": "Settings",
    "_run.context": "RunContext",
    "_run.manifest": "describe peak_memory_gib",
    "_run.processes": "done_elsewhere",
    "_run.record": "plain record_json score_of score_record",
    "_run.resume": "branch differences resume",
    "_run.runner": "MANIFEST build_encoder execute new_directory",
    "_run.sampling": "Sampler",
    "_run.score_items": "attach_items keep_items",
}
"""Module -> the names that it gives."""
_HOMES = {name: f"sentbed.{module}" for module, names in _MODULES.items() for name in names.split()}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `sentbed.tools` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
