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

from sentbed_interop._torch.st_names import PREFIX, SUFFIX

WHITE = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace())
"""What `str.strip` takes away, which is not quite what regular expressions call white space."""

RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "none": (),
    "prompt-eol": ((r"(?<=[^.?\"'])\z", "."), ('"', "'"), (r"\?\z", ".")),
}
"""The text rules that a recipe's prompt may name, as replacements one after the other."""

BEFORE_A_WORD = re.compile(r"(?<=\S)\s(?=\S)")
"""Where a template may be cut: byte-level and SentencePiece vocabularies begin a new piece at a space."""


@attrs.frozen
class Cut:
    """A template in four pieces: ids, text before the sentence, text behind it, ids."""

    prefix: str
    suffix: str
    first: int
    """`prefix[:first]` is given as ids, the rest is tokenised with the sentence."""
    last: int
    """`suffix[last:]` is given as ids, the rest is tokenised with the sentence."""

    @property
    def seam(self) -> str:
        """What stands behind the sentence and is cut off with it."""
        return self.suffix[: self.last]

    @property
    def cuts_question(self) -> bool:
        """Whether a sentence that is cut would lose all that stands behind it."""
        return bool(self.suffix) and self.last == len(self.suffix)


def cuts(prompt: ResolvedPrompt, mask_token: str | None) -> Iterator[Cut]:
    """Yield ways to cut a template, the one with most ids first, the one without any last."""
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

    Truncation comes before the post-processor: what is there as ids is never cut.
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
    """Return the ids before and behind the sentence: special tokens, and the template's beyond its cuts."""
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
    """Return what the tokenizer puts before and behind the ids of a text."""
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return list(full[:start]), list(full[start + len(bare) :])
    raise ModelError(
        "the tokenizer puts special tokens between those of a text, and a prompt cannot be written into it; "
        "export another encoder, or take `--to onnx`"
    )
