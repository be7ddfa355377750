"""A tokenizer that adds the prompt to each text: partly by normalizers, partly as ids around the text."""

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

WHITE = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))
"""The characters that `str.strip` removes. They differ slightly from white space in regular expressions."""

RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "none": (),
    "prompt-eol": ((r"(?<=[^.?\"'])\z", "."), ('"', "'"), (r"\?\z", ".")),
}
"""Name of the rules by which a prompt changes each text -> their replacements in turn: pattern and new text."""

BEFORE_A_WORD = re.compile(r"(?<=\S)\s(?=\S)")
"""Places where a template may be cut, since most vocabularies start a new token at a space."""


@attrs.frozen
class Cut:
    """A template in four pieces: ids, text before the sentence, text after it, ids."""

    prefix: str
    suffix: str
    first: int
    """`prefix[:first]` is added as ids; the rest of `prefix` is tokenised with the sentence."""
    last: int
    """`suffix[last:]` is added as ids; the rest of `suffix` is tokenised with the sentence."""

    @property
    def seam(self) -> str:
        """The part of `suffix` that is tokenised together with the sentence, and truncated with it."""
        return self.suffix[: self.last]

    @property
    def loses_suffix(self) -> bool:
        """Whether truncating a sentence would remove the whole suffix; False if there is no suffix."""
        return bool(self.suffix) and self.last == len(self.suffix)


def cuts(prompt: ResolvedPrompt, mask_token: str | None) -> Iterator[Cut]:
    """Yield the ways to cut a template. The first adds most of it as ids, and the last adds nothing as ids."""
    template = prompt.template
    prefix = template.prefix.lstrip()
    suffix = template.suffix.replace(MASK, mask_token or MASK).rstrip()
    before = [space.start() for space in BEFORE_A_WORD.finditer(prefix)]
    behind = [space.start() for space in BEFORE_A_WORD.finditer(suffix)]
    if suffix[:1].isspace():
        behind.insert(0, 0)

    for last in dict.fromkeys([*behind[:1], len(suffix)]):
        for first in dict.fromkeys([*before[-1:], 0]):
            yield Cut(prefix, suffix, first, last)


def with_prompt(
    tokenizer: Tokenizer,
    prompt: ResolvedPrompt,
    cut: Cut,
) -> Tokenizer:
    """Return a copy of the tokenizer that puts the prompt around each text.

    The prompt's ids are never truncated, since the post-processor adds them after truncation.

    Raises:
        ModelError: if a tokenizer cannot apply the rules by which the prompt changes texts, or if this tokenizer
            puts special tokens within a text.
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

    steps = list(_normalizers(prompt.normalizer, cut))
    if steps and copy.normalizer is not None:
        steps.append(copy.normalizer)
    if steps:
        copy.normalizer = normalizers.Sequence(steps)

    order = ["$A"]
    special_tokens = []
    if before:
        order.insert(0, PREFIX)
        special_tokens.append(_special_token(PREFIX, before, copy))
    if behind:
        order.append(SUFFIX)
        special_tokens.append(_special_token(SUFFIX, behind, copy))
    copy.post_processor = TemplateProcessing(
        single=order, special_tokens=special_tokens
    )
    return copy


def _normalizers(text_rules: str, cut: Cut) -> Iterator[Any]:
    """Yield the normalizers of a text: the prompt's rules, removal of white space, and the template around it."""
    for pattern, content in RULES[text_rules]:
        yield normalizers.Replace(Regex(pattern), content)
    if not cut.prefix:
        yield normalizers.Replace(Regex(rf"\A[{WHITE}]+"), "")
    if not cut.suffix:
        yield normalizers.Replace(Regex(rf"[{WHITE}]+\z"), "")
    head = cut.prefix[cut.first :]
    if head:
        yield normalizers.Prepend(head)
    if cut.seam:
        yield normalizers.Replace(Regex(r"\z"), cut.seam)


def _special_token(
    name: str,
    ids: Sequence[int],
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    """Return a named sequence of ids in the form that `TemplateProcessing` takes."""
    tokens = [tokenizer.id_to_token(token) for token in ids]
    return {"id": name, "ids": ids, "tokens": tokens}


def _ids(tokenizer: Tokenizer, cut: Cut) -> tuple[list[int], list[int]]:
    """Return the ids to add before and after a sentence: special tokens, and the outer parts of the template."""
    text = "a"
    whole = cut.prefix + text + cut.suffix
    bare = tokenizer.encode(whole, add_special_tokens=False)
    full = tokenizer.encode(whole).ids
    before, behind_template = _around(full, bare.ids)

    behind = []
    behind_text = len(cut.prefix) + len(text) + cut.last
    for token, (start, end) in zip(bare.ids, bare.offsets, strict=True):
        if end <= cut.first:
            before.append(token)
        if start >= behind_text:
            behind.append(token)

    return before, behind + behind_template


def _around(full: Sequence[int], bare: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the ids of `full` before and after `bare`, the ids of the text without special tokens.

    Raises:
        ModelError: if special tokens stand between the tokens of the text.
    """
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return list(full[:start]), list(full[start + len(bare) :])
    raise ModelError(
        "the tokenizer puts special tokens between those of a text, and a prompt cannot be written into it; "
        "export another encoder, or take `--to onnx`"
    )
