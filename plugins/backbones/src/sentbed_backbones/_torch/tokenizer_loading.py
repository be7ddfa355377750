"""Loads the tokenizer of a model, so that it gives the ids with which the model was trained.

For many classes, transformers 5 builds a tokenizer from vocabulary and merges only, whatever `tokenizer.json`
says about spaces and normalisation, and gives LLaMA's sentencepiece model another order of merges. Here,
tokenizers give the ids of transformers 4.46.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
import transformers
from sentbed import ModelError
from sentbed.helpers import read_json
from tokenizers import normalizers
from transformers.convert_slow_tokenizer import bytes_to_unicode, generate_merges

from sentbed_backbones.model_file_checks import TOKENIZER_CONFIG, tokenizer_settings

SPACE = "▁"
"""The character by which sentencepiece represents a space."""

NORMAL = 1
"""Number that sentencepiece gives to pieces of texts."""

MASK_TAKES_SPACE = ("RobertaTokenizer", "XLMRobertaTokenizer")
"""Classes whose mask token includes the space before it. transformers 5 no longer knows this unless a file of
the model says it; for CamemBERT and MPNet it still does."""

STARTS_TEXTS: Mapping[str, bool] = {
    "CodeLlamaTokenizer": True,
    "CohereTokenizer": True,
    "GemmaTokenizer": True,
    "GPTNeoXTokenizer": False,
    "LlamaTokenizer": True,
}
"""Classes that put the start and end tokens around a text by the settings `add_bos_token` (with this default)
and `add_eos_token`, whatever `tokenizer.json` says. transformers 5 ignores the settings beside a
`tokenizer.json`, and has no default without one."""


def load_tokenizer(directory: Path, trust_remote_code: bool) -> Any:
    """Return the tokenizer in a model's directory, as a fast tokenizer of transformers.

    Raises:
        ModelError: if a special token is empty.
    """
    settings = tokenizer_settings(directory)
    _require_special_tokens(settings, directory)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
        directory, trust_remote_code=trust_remote_code
    )
    if isinstance(tokenizer, transformers.ByT5Tokenizer):
        return _fast_byt5(tokenizer)

    if not tokenizer.is_fast:
        return tokenizer

    definition = directory / "tokenizer.json"
    if definition.is_file():
        _take_definition(tokenizer, read_json(definition))
    elif _class_name(settings) == "LlamaTokenizer" or isinstance(
        tokenizer, transformers.LlamaTokenizer
    ):
        _follow_pieces(tokenizer, directory / "tokenizer.model")
    else:
        # Written once, so that it is the tokenizer that is saved: the library rounds scores when it reads them.
        _redefine(tokenizer, json.loads(tokenizer.backend_tokenizer.to_str()))
        _let_mask_take_space(tokenizer)

    _put_start_and_end(tokenizer, settings, definition)
    return tokenizer


def _require_special_tokens(settings: Mapping[str, Any], directory: Path) -> None:
    """Raise `ModelError` for an empty special token: transformers would look for its id without end."""
    for name in ("bos_token", "eos_token", "unk_token"):
        token = settings.get(name)
        if isinstance(token, dict):
            token = token.get("content")
        if token == "":
            raise ModelError(
                f"`{directory / TOKENIZER_CONFIG}` has an empty text as `{name}`, expected a token; write the "
                f"token that the model was trained with, or take `{name}` out for the one of the tokenizer's "
                "class"
            )


def _take_definition(tokenizer: Any, written: Mapping[str, Any]) -> None:
    """Let a tokenizer follow its `tokenizer.json` (`written`), if that was converted from sentencepiece."""
    model = written["model"]
    # Old files lack the type of the model. Byte-level BPE and WordPiece are loaded correctly by transformers.
    is_unigram = model.get("type") == "Unigram" or isinstance(model.get("vocab"), list)
    if not is_unigram and not model.get("byte_fallback"):
        return

    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    for part in ("model", "normalizer", "pre_tokenizer", "decoder"):
        definition[part] = written[part]

    written_tokens = {token["content"]: token for token in written["added_tokens"]}
    for token in definition["added_tokens"]:
        token.update(written_tokens.get(token["content"], {}))

    _redefine(tokenizer, definition)


def _redefine(tokenizer: Any, definition: Mapping[str, Any]) -> None:
    """Give a tokenizer of transformers another definition; transformers has no public method for this."""
    tokenizer._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(definition))


def _fast_byt5(original: Any) -> Any:
    """Return ByT5's tokenizer, which transformers has in Python alone, as a fast one: each byte is a token."""
    added = original.added_tokens_decoder
    vocabulary = {str(token): number for number, token in added.items()}
    for byte, character in bytes_to_unicode().items():
        vocabulary[character] = byte + original.offset

    backend = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    backend.add_tokens(list(added.values()))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    backend.decoder = tokenizers.decoders.ByteLevel()
    end, end_id = original.eos_token, original.eos_token_id
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, end_id)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=end,
        pad_token=original.pad_token,
        unk_token=original.unk_token,
    )


def _put_start_and_end(
    tokenizer: Any,
    settings: Mapping[str, Any],
    definition: Path,
) -> None:
    """Let a tokenizer put the start and end tokens around a text as transformers 4 did; see `STARTS_TEXTS`.

    What `save_pretrained` of transformers 5 wrote has neither setting: there, `tokenizer.json` is right, which
    two of the classes ignore.
    """
    starts_texts = STARTS_TEXTS.get(_class_name(settings))
    if starts_texts is None:
        return

    is_set = "add_bos_token" in settings or "add_eos_token" in settings
    if definition.is_file() and not is_set:
        written = tokenizers.Tokenizer.from_file(str(definition))
        tokenizer.backend_tokenizer.post_processor = written.post_processor
        return

    tokenizer.add_bos_token = settings.get("add_bos_token", starts_texts)
    tokenizer.add_eos_token = settings.get("add_eos_token", False)


def _class_name(settings: Mapping[str, Any]) -> str:
    """Return the name of a tokenizer's class in transformers 4; `None` if its settings have none."""
    return str(settings.get("tokenizer_class")).removesuffix("Fast")


def _let_mask_take_space(tokenizer: Any) -> None:
    """Let RoBERTa's mask token include the space before it, unless a file of the model defines the token."""
    settings = tokenizer.init_kwargs
    if type(tokenizer).__name__ not in MASK_TAKES_SPACE:
        return

    # A token that a file defines is a table or an object, not just its text.
    if (
        settings.get("added_tokens_decoder")
        or type(settings.get("mask_token")) is not str
    ):
        return

    mask = tokenizers.AddedToken(tokenizer.mask_token, lstrip=True, special=True)
    tokenizer.add_special_tokens({"mask_token": mask})


def _follow_pieces(tokenizer: Any, file: Path) -> None:
    """Let LLaMA's tokenizer treat spaces as its sentencepiece model `file`, and merge in the order of scores.

    transformers 5 puts no space before a text that begins with one, and orders merges by id. This is wrong for
    LLaMA's pieces of spaces, which have low ids and the lowest scores.
    """
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(file.read_bytes())  # type: ignore[attr-defined]
    numbers = {piece.piece: number for number, piece in enumerate(model.pieces)}
    scores = {}
    for piece in model.pieces:
        if piece.type == NORMAL:
            scores[piece.piece] = piece.score

    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    definition["model"]["merges"] = generate_merges(numbers, scores)
    definition["pre_tokenizer"] = None
    _redefine(tokenizer, definition)
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    )


def require_own_tokenizer(
    tokenizer: Any,
    embeddings: int,
    directory: Path,
) -> None:
    """Raise `ModelError` if a tokenizer has so few tokens that the embeddings were trained with another one.

    Published vocabularies are padded by at most a few per cent, such as T5's 32,100 tokens to 32,128.
    """
    if len(tokenizer) >= embeddings / 2:
        return

    raise ModelError(
        f"the tokenizer in `{directory}` has {len(tokenizer):,} tokens, and the model has embeddings for "
        f"{embeddings:,}: it is another model's, and texts would get wrong vectors; put the tokenizer there that "
        "the model was trained with"
    )


def add_placeholder(
    tokenizer: Any,
    token: str,
    spacing: str | None,
) -> None:
    """Add the placeholder of an intervention to a tokenizer as a token.

    `spacing` is `Intervention.placeholder_spacing`. Its default follows transformers 4, which searched
    for added tokens in the normalised text; LLaMA's normaliser puts a space before the token.
    """
    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    steps = _normalizer_steps(definition["normalizer"])
    others = [step for step in steps if step["type"] != "Prepend"]
    has_prefix = len(others) < len(steps)
    if spacing is None:
        spacing = "stripped" if has_prefix else "kept"
    if has_prefix:
        # The normaliser would put its prefix before each part of a text, also before the part behind the
        # placeholder.
        definition["normalizer"] = {"type": "Sequence", "normalizers": others}
        definition["pre_tokenizer"] = _with_first_prefix(
            definition["pre_tokenizer"], token
        )
        _redefine(tokenizer, definition)

    is_stripped = spacing == "stripped"
    tokenizer.add_tokens(
        [tokenizers.AddedToken(token, lstrip=is_stripped, normalized=False)]
    )


def _with_first_prefix(pre_tokenizer: Any, token: str) -> dict[str, Any]:
    """Return a pre-tokenizer that puts a space only before the first part of a text."""
    if pre_tokenizer is None:
        pre_tokenizer = {"type": "Metaspace", "replacement": SPACE, "split": False}
    if pre_tokenizer["type"] != "Metaspace":
        raise ModelError(
            f"the placeholder {token!r} cannot be added to a tokenizer that has both a normaliser with a "
            f"prefix and the pre-tokenizer `{pre_tokenizer['type']}`; choose another model"
        )

    return {**pre_tokenizer, "prepend_scheme": "first"}


def spacing_of_placeholder(tokenizer: Any, token: str) -> str:
    """Return whether a tokenizer drops the space before a placeholder (`stripped`) or not (`kept`)."""
    alone, behind_space = ids_of(tokenizer, ["a", f"a {token}"])
    if len(behind_space) == len(alone) + 1:
        return "stripped"

    return "kept"


def ids_of(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids that a tokenizer gives to texts, without special tokens."""
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    encodings = backend.encode_batch(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def _normalizer_steps(normalizer: Any) -> list[Mapping[str, Any]]:
    """Return the steps of a normaliser's definition in order, also those in nested sequences; [] for None."""
    if normalizer is None:
        return []

    if "normalizers" not in normalizer:
        return [normalizer]

    steps = []
    for part in normalizer["normalizers"]:
        steps += _normalizer_steps(part)

    return steps
