"""A prompt inside a tokenizer: text rules and seams as normalizers, the rest of the template as ids."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from sentbed import ModelError
from sentbed.tools import MASK, ResolvedPrompt
from tokenizers import Regex, Tokenizer, normalizers
from tokenizers.processors import TemplateProcessing

from sentbed_interop._torch.sentence_transformers_names import PREFIX, SUFFIX

WHITE = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace())
"""The characters that `str.strip` removes, which differ slightly from regular expressions' white space."""

RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "none": (),
    "prompt-eol": ((r"(?<=[^.?\"'])\z", "."), ('"', "'"), (r"\?\z", ".")),
}
"""The text rules of a recipe's prompt, as successive replacements."""

BEFORE_A_WORD = re.compile(r"(?<=\S)\s(?=\S)")
"""Where a template may be cut: byte-level and SentencePiece vocabularies begin a new piece at a space."""


@attrs.frozen
class Cut:
    """A template in four pieces: ids, text before the sentence, text after it, ids."""

    prefix: str
    suffix: str
    first: int
    """`prefix[:first]` is given as ids, the rest is tokenised with the sentence."""
    last: int
    """`suffix[last:]` is given as ids, the rest is tokenised with the sentence."""

    @property
    def seam(self) -> str:
        """The text after the sentence that is truncated with it."""
        return self.suffix[: self.last]

    @property
    def cuts_question(self) -> bool:
        """Whether a truncated sentence would lose all text after it."""
        return bool(self.suffix) and self.last == len(self.suffix)


def cuts(prompt: ResolvedPrompt, mask_token: str | None) -> Iterator[Cut]:
    """Yield ways to cut a template, from the one with the most ids to the one without any."""
    template = prompt.template
    prefix = template.prefix.lstrip()
    suffix = template.suffix.replace(MASK, mask_token or MASK).rstrip()
    before = [found.start() for found in BEFORE_A_WORD.finditer(prefix)]
    behind = [found.start() for found in BEFORE_A_WORD.finditer(suffix)]
    if suffix[:1].isspace():
        behind.insert(0, 0)
    for last in dict.fromkeys([*behind[:1], len(suffix)]):
        for first in dict.fromkeys([*before[-1:], 0]):
            yield Cut(prefix, suffix, first, last)


def with_prompt(tokenizer: Tokenizer, prompt: ResolvedPrompt, cut: Cut) -> Tokenizer:
    """Return a copy of the tokenizer that puts the prompt around each text.

    Truncation comes before the post-processor, so ids are never truncated.
    """
    if prompt.normalizer not in RULES:
        raise ModelError(
            f"the text rules `{prompt.normalizer}` cannot be written into a tokenizer; "
            "use `prompt-eol` or `none`, or take `--to onnx`"
        )
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    before, behind = _ids(copy, cut)
    steps: list[Any] = [
        normalizers.Replace(Regex(pattern), content) for pattern, content in RULES[prompt.normalizer]
    ]
    if not cut.prefix:
        steps.append(normalizers.Replace(Regex(rf"\A[{WHITE}]+"), ""))
    if not cut.suffix:
        steps.append(normalizers.Replace(Regex(rf"[{WHITE}]+\z"), ""))
    if head := cut.prefix[cut.first :]:
        steps.append(normalizers.Prepend(head))
    if cut.seam:
        steps.append(normalizers.Replace(Regex(r"\z"), cut.seam))
    original = copy.normalizer
    if steps:
        copy.normalizer = normalizers.Sequence([*steps, *([] if original is None else [original])])
    parts = {PREFIX: before, SUFFIX: behind}
    copy.post_processor = TemplateProcessing(
        single=[*([PREFIX] if before else []), "$A", *([SUFFIX] if behind else [])],
        special_tokens=[
            {"id": name, "ids": ids, "tokens": [copy.id_to_token(one) for one in ids]}
            for name, ids in parts.items()
            if ids
        ],
    )
    return copy


def _ids(tokenizer: Tokenizer, cut: Cut) -> tuple[list[int], list[int]]:
    """Return the ids before and after the sentence: special tokens, and the template's beyond its cuts."""
    text = "a"
    whole = cut.prefix + text + cut.suffix
    bare = tokenizer.encode(whole, add_special_tokens=False)
    full = tokenizer.encode(whole).ids
    first, last = _around(full, bare.ids)
    behind_text = len(cut.prefix) + len(text) + cut.last
    before = [one for one, (_, end) in zip(bare.ids, bare.offsets, strict=True) if end <= cut.first]
    behind = [one for one, (start, _) in zip(bare.ids, bare.offsets, strict=True) if start >= behind_text]
    return first + before, behind + last


def _around(full: Sequence[int], bare: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer puts before and after those of a text."""
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return list(full[:start]), list(full[start + len(bare) :])
    raise ModelError(
        "the tokenizer puts special tokens between those of a text, and a prompt cannot be written into it; "
        "export another encoder, or take `--to onnx`"
    )
