"""Fingerprint of an encoder: a hash of everything that determines its vectors, to find cached ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import __version__

from sentbed_common.source_code_hashes import code_of

if TYPE_CHECKING:
    from sentbed import Encoder

ENCODING = (
    "sentbed._encoder.batching",
    "sentbed._encoder.encoder",
    "sentbed._recipe.prompts",
    "sentbed.protocols.tokens",
)
"""Core modules whose code determines how texts become batches: prompts, tokens, batching."""


@attrs.frozen
class EncoderFingerprint:
    """Everything but the texts that determines a vector, and a readable description of it."""

    key: Mapping[str, Any]
    """Everything in which two encoders may differ, JSON-serialisable."""
    about: Mapping[str, Any]
    """Model, pooler, width, precision and length, for users."""

    @property
    def name(self) -> str:
        """BLAKE2b of `key`."""
        content = json.dumps(self.key, sort_keys=True, default=str)
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def fingerprint_of(
    encoder: Encoder, fingerprint: str | None = None
) -> EncoderFingerprint | None:
    """Return everything that determines the vectors of texts; None if a part cannot report it.

    The weights on the device are hashed, unless the caller has their hash already (`fingerprint`). Training
    the encoder further changes it.
    """
    from sentbed.tools import components_of, unstructure

    recipe, engine, placed = encoder.recipe, encoder.engine, encoder.placed
    tokenizer = encoder.backbone.tokenizer.fingerprint
    parts = components_of((recipe.backbone, recipe.pooler, recipe.head))
    code = code_of(*parts, type(engine), type(placed), *ENCODING)
    if tokenizer is None or code is None:
        return None
    weights = fingerprint or placed.fingerprint()
    if not weights:
        return None
    prompts = []
    for prompt in recipe.resolved_prompts:
        prompts.append(prompt and attrs.asdict(prompt))
    machine = engine.describe()
    key = {
        "weights": weights,
        "tokenizer": tokenizer,
        "recipe": unstructure(recipe),
        "counts prompt": encoder.counts_prompt,
        "prompt": prompts,
        "engine": {"token_budget": engine.token_budget, **machine},
        "protocol": dict(placed.protocol),
        "code": [__version__, code],
    }
    about = {
        "model": recipe.backbone.traits.model or recipe.backbone.name,
        "pooler": recipe.pooler.name,
        "width": encoder.width,
        "precision": machine["precision"],
        "max_length": recipe.max_length,
    }
    return EncoderFingerprint(key, about)
