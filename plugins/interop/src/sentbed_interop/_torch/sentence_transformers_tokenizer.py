"""The tokenizer of an exported folder, with a check that its ids equal the encoder's."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from sentbed import ModelError
from sentbed.protocols import TokenIds
from tokenizers import Tokenizer

from sentbed_interop._torch.prompt_in_tokenizer import Cut, cuts, with_prompt

if TYPE_CHECKING:
    from sentbed import Encoder

SIGNS = (*string.punctuation, "a", "Z", "7", "é", "ß", "日本", "🙂", "“", "”", "…", "e\u0301", "\u00a0", "\t")
"""First and last characters of test texts: those that a template's punctuation may merge with."""

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

BATTERY = (
    *SENTENCES,
    *SIGNS,
    *(
        text
        for sign in SIGNS
        for text in (f"{sign}word", f"word{sign}", f"{sign} two words {sign}", sign * 3)
    ),
    *(f"word{one}{two}" for one in ENDS for two in ENDS),
)

LONG = (" ".join(SENTENCES) + " ") * 40
"""Longer than most `max_length`."""

BLANK = ("", "   ")


@attrs.frozen
class Written:
    """The result of writing a tokenizer."""

    max_seq_length: int
    """Largest number of tokens, of a text with its prompt and special tokens."""
    notes: tuple[str, ...]
    """Differences from the encoder, for the README."""


def write_tokenizer(encoder: Encoder, directory: Path) -> Written:
    """Change the tokenizer in `directory` so that it gives the encoder's ids.

    Raises:
        ModelError: if it cannot.
    """
    file = directory / "tokenizer.json"
    if not file.is_file():
        raise ModelError(
            "the encoder's tokenizer has no fast form (`tokenizer.json`); "
            "convert it with transformers and save it beside the weights"
        )
    prompt = encoder.recipe.resolved_prompt
    notes: list[str] = []
    length = encoder.recipe.max_length
    if prompt is not None:
        tokenizer, cut, length = _with_template(encoder, Tokenizer.from_file(str(file)))
        tokenizer.save(str(file))
        notes += _about_template(encoder, cut)
    _write_config(directory, length, prompt is not None)
    loaded = load_tokenizer(directory, length)
    texts = _within(encoder) if prompt is not None else [*BATTERY, LONG]
    _require_same(encoder, loaded, length, texts)
    notes += _about_edges(encoder, loaded, length)
    return Written(length, tuple(notes))


def _with_template(encoder: Encoder, tokenizer: Tokenizer) -> tuple[Tokenizer, Cut, int]:
    """Return the tokenizer with the prompt in it, how the template was cut, and the length for it."""
    prompt = encoder.recipe.resolved_prompt
    assert prompt is not None
    texts = _within(encoder)
    if not set(texts) & set(SENTENCES):
        raise ModelError(
            f"at `max_length = {encoder.recipe.max_length}` hardly a sentence is left whole, and a tokenizer "
            "with the prompt in it cuts others than the encoder; set a larger one, or take `--to onnx`"
        )
    expected = _rows(encoder.tokenizer().encode(texts, encoder.recipe.max_length))
    for cut in cuts(prompt, encoder.backbone.tokenizer.mask_token):
        changed = with_prompt(tokenizer, prompt, cut)
        if [one.ids for one in changed.encode_batch(texts)] != expected:
            continue
        longest = encoder.backbone.max_length
        if cut.cuts_question:
            raise ModelError(
                f"the prompt {str(prompt.template)!r} has no space behind the sentence, and a sentence that "
                "is cut would lose what stands there; train with one, or take `--to onnx`"
            )
        own = [len(one) for one in tokenizer.encode_batch(texts, add_special_tokens=False)]
        around = max(len(row) - count for row, count in zip(expected, own, strict=True))
        return changed, cut, min(encoder.recipe.max_length + around, longest)
    raise ModelError(
        f"the prompt {str(prompt.template)!r} cannot be written into this tokenizer: its ids would not be "
        "the encoder's; train without a prompt, or take `--to onnx`"
    )


def _within(encoder: Encoder) -> list[str]:
    """Return the test texts that are not truncated."""
    length = encoder.recipe.max_length
    whole = encoder.backbone.tokenizer.truncate(BATTERY, length)
    return [text for text, cut in zip(BATTERY, whole, strict=True) if text == cut and text.strip()]


def _write_config(directory: Path, length: int, prompted: bool) -> None:
    file = directory / "tokenizer_config.json"
    config: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    # Classes of an architecture build normalizer and post-processor anew; this one reads `tokenizer.json`.
    # transformers 4 does not know what transformers 5 calls it.
    if prompted or config.get("tokenizer_class") in (None, "TokenizersBackend"):
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    if prompted:
        for key in ("add_bos_token", "add_eos_token", "add_prefix_space"):
            config.pop(key, None)
    if config.get("pad_token") is None:
        # sentence-transformers pads batches with it, masked out; LLaMA and GPT-2 have none.
        specials = (config.get(key) for key in ("eos_token", "bos_token", "unk_token"))
        config["pad_token"] = next(filter(None, specials), None)
    if config["pad_token"] is None:
        raise ModelError(
            "the tokenizer has no special token that could fill a batch; give it a `pad_token` with "
            "transformers, and save it beside the weights"
        )
    config |= {"padding_side": "right", "truncation_side": "right", "model_max_length": length}
    file.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")


def load_tokenizer(directory: Path, length: int) -> Any:
    """Load the tokenizer as sentence-transformers does. Raises `ModelError`."""
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(directory, model_max_length=length)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"transformers cannot load the tokenizer as the backbone saves it: {error}; take `--to onnx`"
        ) from error


def _encode(tokenizer: Any, texts: Sequence[str], length: int) -> list[list[int]]:
    rows: list[list[int]] = tokenizer(list(texts), truncation="longest_first", max_length=length)["input_ids"]
    return rows


def _rows(tokens: TokenIds) -> list[list[int]]:
    bounds = tokens.offsets
    return [tokens.ids[bounds[row] : bounds[row + 1]].tolist() for row in range(len(tokens))]


def _require_same(encoder: Encoder, loaded: Any, length: int, texts: Sequence[str]) -> None:
    ours = _rows(encoder.tokenizer().encode(texts, encoder.recipe.max_length))
    for text, expected, found in zip(texts, ours, _encode(loaded, texts, length), strict=True):
        if expected != found:
            raise ModelError(
                f"transformers would tokenise {text[:40]!r} into {found[:12]}, the encoder into "
                f"{expected[:12]}: the tokenizer's class changes it when it is loaded; save the model with "
                "a tokenizer of the class `PreTrainedTokenizerFast`, or take `--to onnx`"
            )


def _about_template(encoder: Encoder, cut: Cut) -> list[str]:
    prompt, limit = encoder.recipe.resolved_prompt, encoder.recipe.max_length
    assert prompt is not None
    own = [f"`{text}`" for text in (cut.prefix[cut.first :], cut.seam) if text]
    repeated = [*(["the text rules"] if prompt.normalizer != "none" else []), *own]
    notes = []
    if repeated:
        notes.append(
            "A text that holds the name of a special token has another vector: each part around the name is "
            f"given {' and '.join(repeated)} anew."
        )
        lost = f", and `{cut.seam}` behind it is cut off with it" if cut.seam else ""
        notes.append(
            f"A text that is cut has another vector: sentbed cuts a text to {limit} tokens of its own. Here "
            f"a longer one keeps a few more{lost}. The rest of the prompt is never cut."
        )
    return notes


def _about_edges(encoder: Encoder, loaded: Any, length: int) -> list[str]:
    """Return notes on the treatment of white space by the tokenizer and releases of the library."""
    notes = []
    ours = _rows(encoder.tokenizer().encode(BLANK, encoder.recipe.max_length))
    if ours != _encode(loaded, BLANK, length):
        notes.append("An empty text has another vector: nothing that the tokenizer could change is there.")
    spaced, bare = _encode(loaded, [" word ", "word"], length)
    if spaced != bare:
        notes.append(
            "The first releases of sentence-transformers 5 take white space off both ends of a text; "
            "sentbed does not."
        )
    return notes
