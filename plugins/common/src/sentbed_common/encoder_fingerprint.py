"""Fingerprint of an encoder: a hash of all that determines its vectors, which are cached under this hash."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sentbed.helpers import key_of

if TYPE_CHECKING:
    from sentbed import Encoder
    from sentbed.protocols import Recipe


def fingerprint_of(encoder: Encoder) -> str | None:
    """Return a hash of everything but the texts that determines an encoder's vectors, in hexadecimal.

    Return None if its tokenizer, its weights or its code cannot be identified.

    The weights on the device are hashed. After further training the encoder has another fingerprint.
    """
    from sentbed.tools import code_of_package, components_of, unstructure

    recipe = encoder.recipe
    engine = encoder.engine
    placed = encoder.placed
    tokenizer = encoder.backbone.tokenizer.fingerprint
    parts = components_of((recipe.backbone, recipe.pooler, recipe.head, recipe.prompts))
    computing = {*parts, type(encoder), type(engine), type(placed)}
    if placed.module is not None:
        # Backbone, pooler and head are put together by other code than that of the engine.
        computing.add(type(placed.module))
    code = {}
    for package in packages_of(computing):
        code[package] = code_of_package(package)
    if tokenizer is None or None in code.values():
        return None

    weights = placed.fingerprint()
    if not weights:
        return None

    prompts = []
    for prompt in recipe.resolved_prompts:
        if prompt is not None:
            prompts.append(prompt.describe())
    engine_facts = {
        "token_budget": engine.token_budget,
        **engine.describe(),
    }
    key = {
        "weights": weights,
        "tokenizer": tokenizer,
        "recipe": unstructure(recipe),
        "counts prompt": encoder.counts_prompt,
        "prompt": prompts,
        "engine": engine_facts,
        "protocol": dict(placed.protocol),
        "code": code,
    }
    return key_of(key)


def packages_of(classes: Iterable[type]) -> set[str]:
    """Return the names of the top-level packages in which classes are defined, or of their modules.

    The module stands for a package without files of its own (a namespace).
    """
    packages = set()
    for cls in classes:
        package, _, _ = cls.__module__.partition(".")
        if getattr(sys.modules.get(package), "__file__", None) is None:
            package = cls.__module__
        packages.add(package)
    return packages


def hash_code(recipe: Recipe) -> None:
    """Hash the code of a recipe's components, before it is edited.

    A run goes on with the code that it began with, and so must its fingerprints.
    """
    from sentbed import Encoder
    from sentbed.tools import code_of_package, components_of

    parts = components_of((*recipe.encoders.values(), recipe.runtime))
    for package in packages_of({*parts, Encoder}):
        code_of_package(package)
