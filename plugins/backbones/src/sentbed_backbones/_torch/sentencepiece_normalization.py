"""The character map of a sentencepiece model, applied as sentencepiece applies it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from sentbed import ModelError
from sentbed.helpers import foreign

from sentbed_backbones.strangers_files import normalizer_steps

EXACT_MAP = "exact_character_map"
"""Setting of a tokenizer (`tokenizer_config.json`): its texts go through `CharacterMap`."""


class CharacterMap:
    """A sentencepiece model's map of characters, such as `nmt_nfkc`, which is NFKC and some rules for spaces.

    sentencepiece replaces the longest sequence of characters that its map has. The library `tokenizers` looks
    up a letter with its accents as a whole where it has fewer than 6 bytes, takes the shortest sequence of
    the map that it begins with and drops the rest; longer ones it looks up character by character. So
    decomposed Vietnamese, Korean and other letters with several accents get other ids there.
    """

    def __init__(self, charsmap: bytes) -> None:
        self._charsmap = charsmap
        self._by_grapheme = tokenizers.normalizers.Precompiled(charsmap)
        self._normalizer: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return CharacterMap, (self._charsmap,)

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return the texts as sentencepiece maps them, spaces neither added nor removed."""
        mapped: list[str] = self._sentencepiece().Normalize(list(texts))
        return mapped

    def where_it_differs(self, texts: Sequence[str]) -> list[str]:
        """Return the texts, mapped where `tokenizers` would map them otherwise than sentencepiece."""
        results = []
        for text, mapped in zip(texts, self(texts), strict=True):
            # A text without any sequence of the map is left alone by both.
            if mapped == text or self._by_grapheme.normalize_str(text) == mapped:
                results.append(text)
            else:
                results.append(mapped)

        return results

    def _sentencepiece(self) -> Any:
        if self._normalizer is None:
            import sentencepiece

            model = model_class()()
            model.normalizer_spec.precompiled_charsmap = self._charsmap
            # Spaces are the business of the rest of the pipeline.
            self._normalizer = sentencepiece.SentencePieceNormalizer(
                model_proto=model.SerializeToString(),
                add_dummy_prefix=False,
                escape_whitespaces=False,
                remove_extra_whitespaces=False,
            )

        return self._normalizer


def model_class() -> Any:
    """Return the class of the content of a sentencepiece model.

    Raises:
        ModelError: if sentencepiece needs a newer protobuf than is installed, as 0.2.3 does.
    """
    problem = "sentencepiece cannot be used with the installed protobuf"
    with foreign(
        ModelError, problem, "run `pip install --upgrade sentencepiece protobuf`"
    ):
        from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]


def character_map_of(definition: Mapping[str, Any]) -> CharacterMap | None:
    """Return the character map in the definition of a tokenizer (`tokenizer.json`), or None without one."""
    for step in normalizer_steps(definition.get("normalizer")):
        if step["type"] == "Precompiled" and step["precompiled_charsmap"]:
            return CharacterMap(base64.b64decode(step["precompiled_charsmap"]))

    return None


def mapped_apart(tokenizer: Any) -> tuple[tokenizers.Tokenizer, CharacterMap | None]:
    """Return the backend of a tokenizer of transformers, and the map that its texts go through before.

    With a map, the backend is a copy that does not map. Without `EXACT_MAP` there is none.
    """
    backend = tokenizer.backend_tokenizer
    if not tokenizer.init_kwargs.get(EXACT_MAP):
        return backend, None

    definition = json.loads(backend.to_str())
    character_map = character_map_of(definition)
    definition["normalizer"] = without_steps(definition["normalizer"], "Precompiled")
    return tokenizers.Tokenizer.from_str(json.dumps(definition)), character_map


def without_steps(normalizer: Any, kind: str) -> dict[str, Any]:
    """Return the definition of a normaliser without its steps of a kind."""
    steps = normalizer_steps(normalizer)
    others = [step for step in steps if step["type"] != kind]
    return {"type": "Sequence", "normalizers": others}
