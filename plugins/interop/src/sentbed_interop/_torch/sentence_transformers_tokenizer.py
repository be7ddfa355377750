"""The tokenizer of an exported folder, and the check that it gives the encoder's token ids."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import ModelError
from sentbed.protocols import TokenIds
from tokenizers import Tokenizer

from sentbed_interop._torch.prompt_in_tokenizer import Cut, cuts, with_prompt

if TYPE_CHECKING:
    from sentbed import Encoder

SIGNS = (
    *string.punctuation,
    "a",
    "Z",
    "7",
    "é",
    "ß",
    "日本",
    "🙂",
    "“",
    "”",
    "…",
    "e\u0301",
    "\u00a0",
    "\t",
)
"""First and last characters of test texts. A template's punctuation may merge with them into one token."""

ENDS = tuple(".?!\"'),")

SENTENCES = (
    "A man is playing a guitar.",
    "Two dogs run; one barks - loudly!",
    'He said "no", didn\'t he?',
    "Größe und Maß: 3,5 m² für 20 €",
    "Line one\nline two",
    "  white space around  ",
    "http://example.org/a_b?c=d&e=1",
    "WORD word WoRd",
)


def _battery() -> Iterator[str]:
    """Yield test texts, which tokenizers may treat in different ways."""
    yield from SENTENCES
    yield from SIGNS
    for sign in SIGNS:
        yield f"{sign}word"
        yield f"word{sign}"
        yield f"{sign} two words {sign}"
        yield sign * 3

    for first, second in product(ENDS, ENDS):
        yield f"word{first}{second}"


BATTERY = tuple(_battery())
"""Test texts, whose token ids are compared."""

LONG = (" ".join(SENTENCES) + " ") * 40
"""A text longer than most `max_length`."""

BLANK = ("", "   ")


@attrs.frozen
class WrittenTokenizer:
    """The result of writing a tokenizer."""

    max_seq_length: int
    """Largest number of tokens of a text, with its prompt and special tokens."""
    notes: tuple[str, ...]
    """Notes on differences from the encoder, for the README."""


def write_tokenizer(encoder: Encoder, directory: Path) -> WrittenTokenizer:
    """Change the tokenizer in `directory` so that it gives the encoder's token ids, with the prompt.

    Raises:
        ModelError: if it cannot be changed to give them.
    """
    file = directory / "tokenizer.json"
    if not file.is_file():
        raise ModelError(
            "the encoder's tokenizer has no fast form (`tokenizer.json`); "
            "convert it with transformers and save it beside the weights"
        )

    notes: list[str] = []
    texts = [*BATTERY, LONG]
    length = encoder.recipe.max_length
    has_prompt = encoder.recipe.resolved_prompt is not None
    if has_prompt:
        texts = _whole_texts(encoder)
        bare = Tokenizer.from_file(str(file))
        tokenizer, cut, length = _with_template(encoder, bare, texts)
        tokenizer.save(str(file))
        notes += _about_template(encoder, cut)

    _write_config(directory, length, has_prompt)
    loaded = load_tokenizer(directory, length)
    _require_same(encoder, loaded, length, texts)
    notes += _about_edges(encoder, loaded, length)
    return WrittenTokenizer(length, tuple(notes))


def _with_template(
    encoder: Encoder,
    tokenizer: Tokenizer,
    texts: Sequence[str],
) -> tuple[Tokenizer, Cut, int]:
    """Return the tokenizer with the prompt in it, a `Cut`, and the largest number of tokens of a text.

    The outer parts of a template become ids that the tokenizer's post-processor adds. The inner parts become text
    that a normalizer puts around the sentence. The `Cut` is where the two kinds of parts are divided. `texts` are
    test texts that the encoder does not truncate.

    Raises:
        ModelError: if no division gives the encoder's ids for the test texts.
    """
    prompt, max_length = encoder.recipe.resolved_prompt, encoder.recipe.max_length
    assert prompt is not None
    if not set(texts) & set(SENTENCES):
        raise ModelError(
            f"at `max_length = {max_length}`, even short sentences are truncated, and a tokenizer with the "
            "prompt in it truncates others than the encoder; set a larger one, or take `--to onnx`"
        )

    expected = token_rows(encoder.tokenizer().encode(texts, max_length))
    for cut in cuts(prompt, encoder.backbone.tokenizer.mask_token):
        changed = with_prompt(tokenizer, prompt, cut)
        if _ids(changed, texts) != expected:
            continue
        if cut.loses_suffix:
            raise ModelError(
                f"the prompt {str(prompt.template)!r} has no space behind the sentence, so that a truncated "
                "sentence would lose the text behind it; train with a space, or take `--to onnx`"
            )

        around = 0
        bare = _ids(tokenizer, texts, add_special_tokens=False)
        for row, bare_row in zip(expected, bare, strict=True):
            around = max(around, len(row) - len(bare_row))
        return changed, cut, min(max_length + around, encoder.backbone.max_length)

    raise ModelError(
        f"the prompt {str(prompt.template)!r} cannot be written into this tokenizer: its ids would not be "
        "the encoder's; train without a prompt, or take `--to onnx`"
    )


def _ids(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    add_special_tokens: bool = True,
) -> list[list[int]]:
    encodings = tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
    return [encoding.ids for encoding in encodings]


def _whole_texts(encoder: Encoder) -> list[str]:
    """Return the test texts that the encoder does not truncate."""
    truncated = encoder.backbone.tokenizer.truncate(BATTERY, encoder.recipe.max_length)
    texts = []
    for text, kept in zip(BATTERY, truncated, strict=True):
        if text == kept and text.strip():
            texts.append(text)
    return texts


def _write_config(
    directory: Path,
    length: int,
    prompted: bool,
) -> None:
    """Change the tokenizer's settings: its class, padding, truncation and largest number of tokens.

    Raises:
        ModelError: if it has no token for padding.
    """
    file = directory / "tokenizer_config.json"
    config: dict[str, Any] = {}
    if file.is_file():
        config = json.loads(file.read_text("utf-8"))

    # The class of an architecture would build normalizer and post-processor anew; this class reads them from
    # `tokenizer.json`. transformers 4 does not know its name in transformers 5, `TokenizersBackend`.
    if prompted or config.get("tokenizer_class") in (None, "TokenizersBackend"):
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    if prompted:
        for key in ("add_bos_token", "add_eos_token", "add_prefix_space"):
            config.pop(key, None)

    if config.get("pad_token") is None:
        # sentence-transformers pads batches with this token, which is masked. LLaMA and GPT-2 have none.
        config["pad_token"] = (
            config.get("eos_token")
            or config.get("bos_token")
            or config.get("unk_token")
        )
    if not config["pad_token"]:
        raise ModelError(
            "the tokenizer has no special token that could fill a batch; give it a `pad_token` with "
            "transformers, and save it beside the weights"
        )

    config |= {
        "padding_side": "right",
        "truncation_side": "right",
        "model_max_length": length,
    }
    file.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def load_tokenizer(directory: Path, length: int) -> Any:
    """Load the tokenizer as sentence-transformers does. Raises `ModelError` if it cannot be loaded."""
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(
            directory, model_max_length=length
        )
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"transformers cannot load the tokenizer as the backbone saves it: {error}; take `--to onnx`"
        ) from error


def _encode(
    tokenizer: Any,
    texts: Sequence[str],
    length: int,
) -> list[list[int]]:
    """Return the token ids of each text from a tokenizer of transformers, truncated to `length`."""
    rows: list[list[int]] = tokenizer(
        list(texts), truncation="longest_first", max_length=length
    )["input_ids"]
    return rows


def token_rows(tokens: TokenIds) -> list[list[int]]:
    """Return the token ids of each text."""
    bounds = tokens.offsets
    return [
        tokens.ids[bounds[row] : bounds[row + 1]].tolist() for row in range(len(tokens))
    ]


def _require_same(
    encoder: Encoder,
    loaded: Any,
    length: int,
    texts: Sequence[str],
) -> None:
    """Raise `ModelError` if the loaded tokenizer gives other ids than the encoder for a text."""
    rows = token_rows(encoder.tokenizer().encode(texts, encoder.recipe.max_length))
    loaded_rows = _encode(loaded, texts, length)
    for text, expected, ids in zip(texts, rows, loaded_rows, strict=True):
        if expected != ids:
            raise ModelError(
                f"transformers would tokenise {text[:40]!r} into {ids[:12]}, the encoder into "
                f"{expected[:12]}: the tokenizer's class changes it while loading; save the model with "
                "a tokenizer of the class `PreTrainedTokenizerFast`, or take `--to onnx`"
            )


def _about_template(encoder: Encoder, cut: Cut) -> list[str]:
    """Return notes on the two kinds of texts that get other ids than in the encoder.

    These are texts that contain the name of a special token, since the normalizer changes each part around it,
    and truncated texts.
    """
    prompt, limit = encoder.recipe.resolved_prompt, encoder.recipe.max_length
    assert prompt is not None
    repeated = []
    if prompt.normalizer != "none":
        repeated.append("the text rules")
    for text in (cut.prefix[cut.first :], cut.seam):
        if text:
            repeated.append(f"`{text}`")
    if not repeated:
        return []

    cut_off = ""
    if cut.seam:
        cut_off = f", and `{cut.seam}` behind it is cut off with it"
    return [
        "A text that contains the name of a special token has another vector: each part around the name gets "
        f"{' and '.join(repeated)} again.",
        f"A text that is truncated has another vector: sentbed truncates a text to {limit} tokens without "
        f"those of the prompt. Here, a longer text keeps a few more tokens{cut_off}. The rest of the prompt is "
        "never truncated.",
    ]


def _about_edges(
    encoder: Encoder,
    loaded: Any,
    length: int,
) -> list[str]:
    """Return notes on empty texts, and on texts that begin or end with white space."""
    notes = []
    rows = token_rows(encoder.tokenizer().encode(BLANK, encoder.recipe.max_length))
    if rows != _encode(loaded, BLANK, length):
        notes.append(
            "An empty text has another vector: normalizers do not change an empty text."
        )
    spaced, bare = _encode(loaded, [" word ", "word"], length)
    if spaced != bare:
        notes.append(
            "The first releases of sentence-transformers 5 remove white space at both ends of a text; sentbed "
            "does not."
        )
    return notes
