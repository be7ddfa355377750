"""The tokenizer that puts texts into a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sentbed.errors import ModelError
from sentbed.protocols import MASK, ResolvedPrompt, TokenIds, Tokenizer

NO_LIMIT = 2**20
"""Maximum length, in tokens, for tokenising a whole prompt: it is not truncated, only the sentence in it was."""


@attrs.frozen(eq=False)
class PromptTokenizer(Tokenizer):
    """Tokenizer that puts each text into a prompt, then tokenises the prompt."""

    original: Tokenizer
    """Tokenizer of the backbone."""
    prompt: ResolvedPrompt
    longest: int
    """Largest input length of the backbone, in tokens."""
    normalize: bool = True
    """Whether the prompt's text rules are applied."""
    counts_prompt: bool = False
    """Whether `max_length` includes the tokens of the prompt, which is a text before the sentence.

    Both are then truncated as one text, as in sentence-transformers.
    """

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return self.original.pad_id

    @property
    def mask_token(self) -> str | None:
        """The mask token as a string, or None if the vocabulary has no mask token."""
        return self.original.mask_token

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise the prompts of these texts.

        `max_length` applies to the sentence alone; with `counts_prompt`, to prompt, sentence and special tokens
        together.

        Raises:
            ModelError: if a prompt has more tokens than the backbone has positions (the template is not
                truncated), or if the template has a mask but the vocabulary has no mask token.
        """
        mask = self.mask_token
        if mask is None and MASK in self.prompt.template.suffix:
            raise ModelError(
                f"the template {str(self.prompt.template)!r} has a `{MASK}`, and the tokenizer has no mask "
                "token; take it out, or choose a model with a mask token"
            )

        if self.counts_prompt:
            prompts = [self.prompt.apply(text) for text in texts]
            return self.original.encode(prompts, min(self.longest, max_length))

        truncated = self.original.truncate(texts, max_length)
        tokens = self._encode_prompts(truncated, mask or MASK)
        length = tokens.lengths.max(initial=0)
        if length > self.longest:
            raise ModelError(
                f"a prompt has {length} tokens, the backbone has positions for {self.longest}; lower "
                f"`max_length` (it is {max_length}, for the sentence without its template) or shorten the "
                "template"
            )
        return tokens

    def _encode_prompts(self, texts: Sequence[str], mask: str) -> TokenIds:
        """Tokenise the prompts of texts that have already been truncated."""
        prompts = [self.prompt.apply(text, self.normalize, mask) for text in texts]
        if self.prompt.template.between is None:
            return self.original.encode(prompts, NO_LIMIT)
        starts = [self.prompt.start(text, self.normalize) for text in texts]
        return self.original.encode_from(prompts, starts)

    def shareable(self, ids: Any) -> int:
        """Return how many leading ids of a prompt may be in a shared prefix."""
        return self.original.shareable(ids)

    def auxiliary(self, texts: Sequence[str], max_length: int) -> TokenIds | None:
        """Tokenise the texts in the auxiliary prompt, with the same text rules; return None if there is none."""
        if self.prompt.auxiliary is None:
            return None
        prompt = attrs.evolve(self.prompt, template=self.prompt.auxiliary)
        return attrs.evolve(self, prompt=prompt).encode(texts, max_length)

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        """Return the beginning of each text that has at most `max_length` tokens, not counting the template."""
        return self.original.truncate(texts, max_length)
