"""Loads the tokenizer of a model, so that it gives the ids with which the model was trained.

For many classes, transformers 5 builds a tokenizer from vocabulary and merges only. It then ignores what
`tokenizer.json` says about spaces and normalisation, and converts every sentencepiece model with the settings
of the class instead of the model's. Here, a `tokenizer.json` that was converted from sentencepiece is used as
it is written, and a sentencepiece model is converted with its own settings and compared with sentencepiece.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

import tokenizers
import transformers
from sentbed import ModelError
from sentbed.helpers import foreign, read_file, read_json
from tokenizers import Regex, normalizers
from transformers.convert_slow_tokenizer import bytes_to_unicode, generate_merges

from sentbed_backbones._torch.sentencepiece_normalization import (
    EXACT_MAP,
    backend_and_character_map,
    model_class,
    without_steps,
)
from sentbed_backbones._torch.tokenizer import EMBEDDED_TOKENS, tokenizing
from sentbed_backbones.model_file_checks import LARGEST_JSON
from sentbed_backbones.untrusted_files import (
    normalizer_steps,
    require_bounded_tokenizer,
)

SPACE = "▁"
"""The character by which sentencepiece represents a space."""

MOST_RECORDS = 1 << 16
"""Largest number of log records that are searched; loading a tokenizer makes a few."""

QUOTATION_MARKS = ("``", "''")
"""Quotation marks that ALBERT's and XLNet's classes replace by a double quote."""

UNIGRAM, BPE = 1, 2
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
"""Numbers that sentencepiece gives to its algorithms and to the kinds of pieces."""

WRONG_CONVERSIONS: Mapping[str, str] = {
    "incorrect regex pattern": (
        "load it once with `AutoTokenizer.from_pretrained(..., fix_mistral_regex=True)`, save it with "
        "`save_pretrained` beside the weights, and name that directory"
    ),
    "Could not extract SentencePiece model": "fetch the file again",
    "Could not reorder vocab": "fetch the model again, or take a revision with `tokenizer.json`",
}
"""Parts of warnings by which transformers announces wrong ids, and advice for each."""

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

TEXTS_TO_COMPARE = (
    "",
    " ",
    "a",
    "The cat sat on the mat.",
    "two  spaces,   three",
    " a space before",
    "spaces behind  ",
    "tab\tand\nline\r\nbreaks",
    "\u00a0no-break\u3000ideographic",
    "ＦＵＬＬ　ｗｉｄｔｈ ｶﾞ",
    "caf\u00e9 cafe\u0301 ﬁ ½ …",
    "Tie\u0302\u0301ng Vie\u0323\u0302t \u1112\u1161\u11ab",
    "1234,567.89 2nd",
    "我们在测试句子编码器。",
    "مرحبا नमस्ते 한국어",
    "😀👩‍👩‍👧‍👦 🇸🇪 ☃☃☃",
    "zero\u200bwidth\u00adhyphen\ufffd\u0001\u0085",
    "a▁b ▁ c▁",
    "'it''s' \"quoted\" (so) <b> & [x]",
)
"""Texts for which a converted tokenizer must give the same ids as sentencepiece; pieces of the model are
added."""

PIECES_TO_COMPARE = 200


def load_tokenizer(directory: Path, trust_remote_code: bool) -> Any:
    """Return the tokenizer in a model's directory, as a fast tokenizer of transformers.

    Raises:
        ModelError: if the tokenizer's conversion from sentencepiece is not exact, if transformers warns of
            wrong ids (`WRONG_CONVERSIONS`), if a special token is empty, or if the tokenizer exceeds the limits
            of `untrusted_files`.
    """
    require_bounded_tokenizer(directory)
    settings = _read_settings(directory)
    definition = directory / "tokenizer.json"
    if not definition.is_file():
        for file in sorted(directory.glob("*.model")):
            # transformers would read a file that is no sentencepiece model as one of tiktoken.
            _read_sentencepiece(file)

    with _warnings_as_errors(directory):
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
            directory, trust_remote_code=trust_remote_code
        )

    if isinstance(tokenizer, transformers.ByT5Tokenizer):
        return _fast_byt5(tokenizer)

    if not tokenizer.is_fast:
        return tokenizer

    if definition.is_file():
        _take_definition(tokenizer, read_json(definition, LARGEST_JSON))
        _put_start_and_end(tokenizer, settings, definition)
        return tokenizer

    vocabulary_file = getattr(tokenizer, "vocab_file", None)
    if str(vocabulary_file).endswith(".model"):
        _convert(tokenizer, directory / Path(str(vocabulary_file)).name)

    _let_mask_take_space(tokenizer)
    _put_start_and_end(tokenizer, settings, definition)
    return tokenizer


@contextmanager
def _warnings_as_errors(directory: Path) -> Iterator[None]:
    """Raise `ModelError` for warnings of transformers that are in `WRONG_CONVERSIONS`."""
    collector = BufferingHandler(MOST_RECORDS)
    logger = logging.getLogger("transformers")
    handlers, level = logger.handlers, logger.level
    logger.handlers = [collector]
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.handlers = handlers
        logger.setLevel(level)

    for record in collector.buffer:
        message = record.getMessage()
        for part, advice in WRONG_CONVERSIONS.items():
            if part in message:
                raise ModelError(
                    f"the tokenizer in `{directory}` would give wrong ids: {message:.300}; {advice}"
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


def _read_settings(directory: Path) -> dict[str, Any]:
    """Return the content of `tokenizer_config.json`; empty if there is no such file.

    Raises `ModelError` for an empty special token: transformers would look for its id without end.
    """
    file = directory / "tokenizer_config.json"
    if not file.is_file():
        return {}

    settings: dict[str, Any] = read_json(file, LARGEST_JSON)
    for name in ("bos_token", "eos_token", "unk_token"):
        token = settings.get(name)
        if isinstance(token, dict):
            token = token.get("content")
        if token == "":
            raise ModelError(
                f"`{file}` has an empty text as `{name}`, expected a token; write the token that the model was "
                f"trained with, or take `{name}` out for the one of the tokenizer's class"
            )

    return settings


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
    name = str(settings.get("tokenizer_class")).removesuffix("Fast")
    starts_texts = STARTS_TEXTS.get(name)
    if starts_texts is None:
        return

    is_set = "add_bos_token" in settings or "add_eos_token" in settings
    if definition.is_file() and not is_set:
        written = tokenizers.Tokenizer.from_file(str(definition))
        tokenizer.backend_tokenizer.post_processor = written.post_processor
        return

    tokenizer.add_bos_token = settings.get("add_bos_token", starts_texts)
    tokenizer.add_eos_token = settings.get("add_eos_token", False)


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


def _convert(tokenizer: Any, file: Path) -> None:
    """Let a tokenizer that transformers converted follow its sentencepiece model, and check the result."""
    model, processor = _read_sentencepiece(file)
    if reason := _reason_against(model):
        raise ModelError(
            f"the sentencepiece model `{file}` {reason}, which the library `tokenizers` cannot do; choose "
            "another model"
        )

    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    if _changes_texts_before(definition):
        raise ModelError(
            f"`{type(tokenizer).__name__}` changes texts before the sentencepiece model `{file}` sees them "
            "(case, accents, quotation marks or punctuation), which is not converted here; take a revision "
            "or model with `tokenizer.json`"
        )

    definition["model"] = _model_definition(definition["model"], model)
    _redefine(tokenizer, definition)
    backend = tokenizer.backend_tokenizer
    backend.normalizer = _normalizer(model.normalizer_spec)
    # A Unigram model is faster word by word, unless it has pieces that cover several words.
    has_inner_spaces = any(SPACE in piece.piece[1:] for piece in model.pieces)
    is_unigram = model.trainer_spec.model_type == UNIGRAM
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(
        SPACE, prepend_scheme="never", split=is_unigram and not has_inner_spaces
    )
    if model.normalizer_spec.precompiled_charsmap:
        tokenizer.init_kwargs[EXACT_MAP] = True

    _require_same_ids(tokenizer, file, processor, model)


def _read_sentencepiece(file: Path) -> tuple[Any, Any]:
    """Return the content of a sentencepiece model and its processor. Raises `ModelError` if it is invalid."""
    import sentencepiece

    read_model = model_class().FromString
    content = read_file(file, LARGEST_JSON)
    advice = "fetch the model again, or take a revision with `tokenizer.json`"
    with foreign(ModelError, f"`{file}` is no sentencepiece model", advice):
        model = read_model(content)
        if not model.pieces:
            raise ValueError("it has no pieces")

        processor = sentencepiece.SentencePieceProcessor(model_proto=content)

    return model, processor


def _reason_against(model: Any) -> str | None:
    """Return why a sentencepiece model cannot be converted exactly, as a clause; None if it can be."""
    if model.trainer_spec.model_type not in (UNIGRAM, BPE):
        return "splits texts into words or characters"

    if model.trainer_spec.treat_whitespace_as_suffix:
        return "puts the sign of a space behind a word"

    if not model.normalizer_spec.escape_whitespaces:
        return "keeps spaces as they are"

    return None


def _changes_texts_before(definition: Mapping[str, Any]) -> bool:
    """Whether a tokenizer of transformers changes texts beyond the sentencepiece model, as ALBERT's does."""
    for step in normalizer_steps(definition["normalizer"]):
        if step["type"] in ("Lowercase", "StripAccents"):
            return True

        if (
            step["type"] == "Replace"
            and step["pattern"].get("String") in QUOTATION_MARKS
        ):
            return True

    return "Punctuation" in json.dumps(definition["pre_tokenizer"])


def _model_definition(converted: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Return the model of a converted tokenizer, with byte fallback and merges of the sentencepiece model.

    Ids remain those of the class in transformers, which may differ from sentencepiece's (XLM-R).
    """
    definition = dict(converted)
    definition["byte_fallback"] = model.trainer_spec.byte_fallback
    if model.trainer_spec.model_type == BPE:
        definition["unk_token"] = model.trainer_spec.unk_piece
        definition["fuse_unk"] = True
        definition["merges"] = _merges(model)

    return definition


def _merges(model: Any) -> list[tuple[str, str]]:
    """Return all pairs of pieces that together are a piece, in the order of that piece's score.

    transformers orders merges by id. This is wrong for LLaMA's pieces of spaces, which have low ids and the
    lowest scores.
    """
    numbers = {piece.piece: number for number, piece in enumerate(model.pieces)}
    scores = {}
    for piece in model.pieces:
        if piece.type == NORMAL:
            scores[piece.piece] = piece.score

    merges: list[tuple[str, str]] = generate_merges(numbers, scores)
    return merges


def _normalizer(settings: Any) -> normalizers.Normalizer:
    """Return a normaliser with the steps of sentencepiece, in the order of its code (`normalizer.cc`)."""
    steps: list[normalizers.Normalizer] = []
    if settings.precompiled_charsmap:
        steps.append(normalizers.Precompiled(settings.precompiled_charsmap))

    if settings.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex("^ +"), ""))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
        # At the end of a text, sentencepiece also removes its character for a space.
        steps.append(normalizers.Replace(Regex(f"[ {SPACE}]+$"), ""))

    if settings.add_dummy_prefix:
        steps.append(normalizers.Prepend(SPACE))

    steps.append(normalizers.Replace(" ", SPACE))
    return normalizers.Sequence(steps)


def _require_same_ids(
    tokenizer: Any,
    file: Path,
    processor: Any,
    model: Any,
) -> None:
    """Raise `ModelError` if a converted tokenizer and sentencepiece give different ids for a text."""
    texts = [*TEXTS_TO_COMPARE, *_texts_of_pieces(model)]
    added = {token.content for token in tokenizer.added_tokens_decoder.values()}
    added -= {piece.piece for piece in model.pieces if piece.type == USER_DEFINED}
    # Texts with tokens that transformers adds are not compared: sentencepiece does not know these tokens.
    for token in added:
        texts = [text for text in texts if token not in text]

    is_unigram = model.trainer_spec.model_type == UNIGRAM
    rows = ids_of(tokenizer, texts)
    published_rows = _sentencepiece_ids(tokenizer, processor, texts)
    for text, row, published in zip(texts, rows, published_rows, strict=True):
        if row == published or (is_unigram and are_tied(row, published)):
            continue

        tokens = tokenizer.convert_ids_to_tokens(row)
        published_tokens = tokenizer.convert_ids_to_tokens(published)
        raise ModelError(
            f"the conversion of `{file}` is not exact: {text!r:.60} gives {tokens!r:.120}, and in "
            f"sentencepiece {published_tokens!r:.120}; take a revision or model with `tokenizer.json`"
        )


def are_tied(ids: Sequence[int], others: Sequence[int]) -> bool:
    """Whether two segmentations have the same pieces in another order, such as `..` `.` and `.` `..`.

    In a Unigram model, their scores are the same sum, so that rounding decides which one a library chooses. BPE
    has no such ties, since its merges are ordered.
    """
    return sorted(ids) == sorted(others)


def _texts_of_pieces(model: Any) -> Iterator[str]:
    """Yield texts with pieces of a model: a selection of normal pieces, and all user-defined pieces."""
    normal = [piece.piece for piece in model.pieces if piece.type == NORMAL]
    step = max(1, len(normal) // PIECES_TO_COMPARE)
    for piece in normal[::step]:
        yield piece.replace(SPACE, " ")
        yield f"x{piece}y".replace(SPACE, " ")

    for piece in model.pieces:
        if piece.type == USER_DEFINED:
            yield f"a {piece.piece} b{piece.piece}c"


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


def note_tokens_without_embeddings(tokenizer: Any, embeddings: int) -> None:
    """Record in a tokenizer's settings how many of its tokens have embeddings, unless all have one.

    Published tokenizers may have tokens without an embedding, such as a padding token that the model was not
    trained with. This is only an error if a text has such a token.
    """
    if EMBEDDED_TOKENS in tokenizer.init_kwargs:
        return

    if max(tokenizer.get_vocab().values(), default=0) >= embeddings:
        tokenizer.init_kwargs[EMBEDDED_TOKENS] = embeddings


def add_placeholder(
    tokenizer: Any,
    token: str,
    spacing: str | None,
) -> None:
    """Add the placeholder of an intervention to a tokenizer as a token.

    `spacing` is `InterventionTraits.placeholder_spacing`. Its default follows transformers 4, which searched
    for added tokens in the normalised text; LLaMA's normaliser puts a space before the token.
    """
    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    steps = normalizer_steps(definition["normalizer"])
    has_prefix = any(step["type"] == "Prepend" for step in steps)
    if spacing is None:
        spacing = "stripped" if has_prefix else "kept"
    if has_prefix:
        # The normaliser would put its prefix before each part of a text, also before the part behind the
        # placeholder.
        definition["normalizer"] = without_steps(definition["normalizer"], "Prepend")
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
    backend, character_map = backend_and_character_map(tokenizer)
    with tokenizing():
        if character_map is not None:
            texts = character_map(texts)

        backend.no_truncation()
        backend.no_padding()
        encodings = backend.encode_batch(list(texts), add_special_tokens=False)

    return [encoding.ids for encoding in encodings]


def _sentencepiece_ids(
    tokenizer: Any,
    processor: Any,
    texts: Sequence[str],
) -> list[list[int]]:
    """Return the pieces that sentencepiece finds in texts, as ids of the tokenizer."""
    vocabulary = tokenizer.get_vocab()
    unknown = processor.unk_id()
    rows = []
    for numbers in processor.encode(list(texts)):
        row = []
        for number in numbers:
            if number == unknown:
                row.append(tokenizer.unk_token_id)
            else:
                row.append(vocabulary.get(processor.id_to_piece(number)))

        rows.append(row)

    return rows
