"""The character map of a sentencepiece model, applied exactly as by sentencepiece."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from sentbed import ModelError
from sentbed.helpers import foreign

from sentbed_backbones.untrusted_files import normalizer_steps

EXACT_MAP = "exact_character_map"
"""Key in a tokenizer's `tokenizer_config.json`; if its value is true, `CharacterMap` maps the texts."""


class CharacterMap:
    """The character map of a sentencepiece model, such as `nmt_nfkc`: NFKC and some rules for spaces.

    sentencepiece replaces the longest sequence of characters that the map has. The library `tokenizers` takes a
    letter with its accents: if it has fewer than 6 bytes, the shortest sequence of the map with which it begins
    is replaced and the rest is dropped; otherwise each character is replaced alone. Decomposed Vietnamese,
    Korean and other letters with several accents therefore get other ids from `tokenizers`.
    """

    def __init__(self, charsmap: bytes) -> None:
        self._charsmap = charsmap
        self._by_grapheme = tokenizers.normalizers.Precompiled(charsmap)
        self._normalizer: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return CharacterMap, (self._charsmap,)

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return the texts as sentencepiece maps them, without adding or removing spaces."""
        mapped: list[str] = self._sentencepiece().Normalize(list(texts))
        return mapped

    def where_it_differs(self, texts: Sequence[str]) -> list[str]:
        """Return the texts; those that `tokenizers` and sentencepiece would map differently are mapped."""
        results = []
        for text, mapped in zip(texts, self(texts), strict=True):
            # If no sequence of the map occurs in the text, neither library changes the text.
            if mapped == text or self._by_grapheme.normalize_str(text) == mapped:
                results.append(text)
            else:
                results.append(mapped)

        return results

    def _sentencepiece(self) -> Any:
        """Return a normaliser of sentencepiece with this map."""
        if self._normalizer is None:
            import sentencepiece

            model = model_class()()
            model.normalizer_spec.precompiled_charsmap = self._charsmap
            # Spaces are left to the other steps of the tokenizer's pipeline.
            self._normalizer = sentencepiece.SentencePieceNormalizer(
                model_proto=model.SerializeToString(),
                add_dummy_prefix=False,
                escape_whitespaces=False,
                remove_extra_whitespaces=False,
            )

        return self._normalizer


def model_class() -> Any:
    """Return the protobuf class that parses a sentencepiece model.

    Raises:
        ModelError: if sentencepiece needs a newer protobuf than the installed one.
    """
    problem = "sentencepiece cannot be used with the installed protobuf"
    with foreign(
        ModelError, problem, "run `pip install --upgrade sentencepiece protobuf`"
    ):
        from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]


def character_map_of(definition: Mapping[str, Any]) -> CharacterMap | None:
    """Return the character map in the definition of a tokenizer (`tokenizer.json`); None if it has none."""
    for step in normalizer_steps(definition.get("normalizer")):
        if step["type"] == "Precompiled" and step["precompiled_charsmap"]:
            return CharacterMap(base64.b64decode(step["precompiled_charsmap"]))

    return None


def backend_and_character_map(
    tokenizer: Any,
) -> tuple[tokenizers.Tokenizer, CharacterMap | None]:
    """Return a tokenizer's backend, and the character map to apply to texts before the backend.

    If the setting `EXACT_MAP` is on, the backend is a copy that does not map characters itself. Otherwise the
    backend is the tokenizer's, and the map is None.
    """
    backend = tokenizer.backend_tokenizer
    if not tokenizer.init_kwargs.get(EXACT_MAP):
        return backend, None

    definition = json.loads(backend.to_str())
    character_map = character_map_of(definition)
    definition["normalizer"] = without_steps(definition["normalizer"], "Precompiled")
    return tokenizers.Tokenizer.from_str(json.dumps(definition)), character_map


def without_steps(normalizer: Any, kind: str) -> dict[str, Any]:
    """Return the definition of a normaliser without its steps of type `kind`."""
    steps = normalizer_steps(normalizer)
    others = [step for step in steps if step["type"] != kind]
    return {"type": "Sequence", "normalizers": others}
