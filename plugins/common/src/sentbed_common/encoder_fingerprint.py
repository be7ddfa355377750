"""Fingerprint of an encoder: everything that determines its vectors, so that stored ones can be found."""

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
"""Core modules that determine how texts become batches: prompts, tokens, batching."""


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
    """Return everything that determines the vectors of texts, or None if a part cannot report it.

    The current weights are hashed unless `fingerprint` gives the placed encoder's hash; further training
    leads to another fingerprint.
    """
    from sentbed.tools import components_of, unstructure

    recipe, engine, placed = encoder.recipe, encoder.engine, encoder.placed
    tokens = encoder.backbone.tokenizer.fingerprint
    parts = components_of((recipe.backbone, recipe.pooler, recipe.head))
    code = code_of(*parts, type(engine), type(placed), *ENCODING)
    if tokens is None or code is None:
        return None
    if not (hashed := fingerprint or placed.fingerprint()):
        return None
    machine = engine.describe()
    key = {
        "weights": hashed,
        "tokenizer": tokens,
        "recipe": unstructure(recipe),
        "counts prompt": encoder.counts_prompt,
        "prompt": [
            prompt and attrs.asdict(prompt) for prompt in recipe.resolved_prompts
        ],
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
