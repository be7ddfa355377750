"""What tools may use of core: recipes, runs, the registry, the vector store.

Components need none of it: they have `sentbed.protocols`, `sentbed.hookspecs` and `sentbed.helpers`. A name is imported
when it is first used.
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
    from sentbed._encoder.encoder import ENCODER_FILE, PartProgress, saved_recipe
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
    "PartProgress",
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

_HOMES = {
    "progress_bars": "sentbed._cli.evaluate",
    "done_elsewhere": "sentbed._run.processes",
    "FAILED": "sentbed._cli.options",
    "set_before_axes": "sentbed._cli.options",
    "set_option": "sentbed._cli.options",
    "EXTENDS": "sentbed._document.extends",
    "leaves": "sentbed._document.extends",
    "apply_overrides": "sentbed._document.overrides",
    "set_values": "sentbed._document.overrides",
    "KIND_OF": "sentbed._document.structure",
    "structure": "sentbed._document.structure",
    "unstructure": "sentbed._document.structure",
    "Document": "sentbed._document.toml",
    "KeyPath": "sentbed._document.toml",
    "WINDOW": "sentbed._encoder.batching",
    "encode_into": "sentbed._encoder.batching",
    "ENCODER_FILE": "sentbed._encoder.encoder",
    "PartProgress": "sentbed._encoder.encoder",
    "saved_recipe": "sentbed._encoder.encoder",
    "LIMIT_VARIABLE": "sentbed._encoder.vector_store",
    "VectorStore": "sentbed._encoder.vector_store",
    "is_locked": "sentbed._locks",
    "locked": "sentbed._locks",
    "check": "sentbed._recipe.checks",
    "test_data_problem": "sentbed._recipe.checks",
    "REASONS": "sentbed._recipe.fit",
    "TEMPLATE": "sentbed._recipe.fit",
    "misfits": "sentbed._recipe.fit",
    "needs_of": "sentbed._recipe.fit",
    "MASK": "sentbed._recipe.prompts",
    "Demonstration": "sentbed._recipe.prompts",
    "Prompt": "sentbed._recipe.prompts",
    "PromptTokenizer": "sentbed._recipe.prompts",
    "ResolvedPrompt": "sentbed._recipe.prompts",
    "Template": "sentbed._recipe.prompts",
    "lines_of": "sentbed._recipe.prompts",
    "parse_template": "sentbed._recipe.prompts",
    "MAIN_ENCODER": "sentbed._recipe.recipe",
    "RESOLVED": "sentbed._recipe.recipe",
    "SCHEMA": "sentbed._recipe.recipe",
    "Checkpoint": "sentbed._recipe.recipe",
    "EncoderRecipe": "sentbed._recipe.recipe",
    "Recipe": "sentbed._recipe.recipe",
    "Stage": "sentbed._recipe.recipe",
    "first_stages": "sentbed._recipe.recipe",
    "resolved_toml": "sentbed._recipe.recipe",
    "component_of": "sentbed._recipe.load",
    "executor_of": "sentbed._recipe.load",
    "load_recipe": "sentbed._recipe.load",
    "read_document": "sentbed._recipe.load",
    "structure_recipe": "sentbed._recipe.load",
    "groups": "sentbed._recipe.shared_pass",
    "OPTIONAL": "sentbed._recipe.show",
    "REQUIRED": "sentbed._recipe.show",
    "default_of": "sentbed._recipe.show",
    "default_text": "sentbed._recipe.show",
    "describe_table": "sentbed._recipe.show",
    "example": "sentbed._recipe.show",
    "field_docs": "sentbed._recipe.show",
    "hints_of": "sentbed._recipe.show",
    "is_plain": "sentbed._recipe.show",
    "tables": "sentbed._recipe.show",
    "type_name": "sentbed._recipe.show",
    "DISTRIBUTIONS": "sentbed._registry.catalog",
    "OURS": "sentbed._registry.catalog",
    "GROUP": "sentbed._registry.registry",
    "KINDS": "sentbed._registry.registry",
    "ComponentInfo": "sentbed._registry.registry",
    "Plugins": "sentbed._registry.registry",
    "load_plugins": "sentbed._registry.registry",
    "ATTRIBUTES": "sentbed._registry.rules",
    "METHODS": "sentbed._registry.rules",
    "NEEDED": "sentbed._registry.rules",
    "Settings": "sentbed._registry.settings",
    "describe": "sentbed._run.manifest",
    "peak_memory_gib": "sentbed._run.manifest",
    "plain": "sentbed._run.record",
    "record_json": "sentbed._run.record",
    "score_of": "sentbed._run.record",
    "score_record": "sentbed._run.record",
    "branch": "sentbed._run.resume",
    "differences": "sentbed._run.resume",
    "resume": "sentbed._run.resume",
    "MANIFEST": "sentbed._run.runner",
    "RunContext": "sentbed._run.context",
    "build_encoder": "sentbed._run.runner",
    "execute": "sentbed._run.runner",
    "new_directory": "sentbed._run.runner",
    "Sampler": "sentbed._run.sampling",
    "attach_items": "sentbed._run.score_items",
    "keep_items": "sentbed._run.score_items",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `sentbed.tools` has no attribute `{name}`")
    return getattr(import_module(_HOMES[name]), name)
