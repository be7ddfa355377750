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
    """Whether `max_length` includes the tokens of the prompt, as in sentence-transformers."""

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

        longest = self.longest
        if self.counts_prompt:
            longest = min(longest, max_length)
            if self._is_text_before:
                prompts = [self.prompt.apply(text, normalize=False) for text in texts]
                return self.original.encode(prompts, longest)

        truncated = self.original.truncate(texts, max_length)
        tokens = self._encode_prompts(truncated, mask or MASK)
        # With `counts_prompt`, texts are shortened until their prompts have at most `longest` tokens. `limits`
        # has the number of tokens to which the text of each row has been cut.
        limits: dict[int, int] = {}
        while too_long := (tokens.lengths > longest).nonzero()[0].tolist():
            texts_too_long = [truncated[row] for row in too_long]
            # At most a text's own length, since a limit above it cuts nothing.
            text_lengths = self.original.encode(texts_too_long, NO_LIMIT).lengths
            for row, text_length in zip(too_long, text_lengths.tolist(), strict=True):
                excess = int(tokens.lengths[row]) - longest
                limits[row] = min(limits.get(row, max_length), text_length) - excess
                if limits[row] < 1 and longest < self.longest:
                    raise ModelError(
                        f"a prompt without its sentence has {longest} tokens or more, and `max_length` "
                        f"({longest}) counts both; raise `max_length` or shorten the template"
                    )
                if not self.counts_prompt or limits[row] < 1:
                    raise ModelError(
                        f"a prompt has {tokens.lengths[row]} tokens, the backbone has positions for "
                        f"{self.longest}; lower `max_length` (it is {max_length}, for the sentence without "
                        "its template) or shorten the template"
                    )
                (truncated[row],) = self.original.truncate(
                    [truncated[row]], limits[row]
                )
            tokens = self._encode_prompts(truncated, mask or MASK)
        return tokens

    @property
    def _is_text_before(self) -> bool:
        """Whether the prompt only puts a text before the sentence, so that both can be truncated as one text."""
        template = self.prompt.template
        return (
            not template.suffix.strip()
            and template.between is None
            and self.prompt.layers is None
            and self.prompt.normalizer == "none"
        )

    def _encode_prompts(self, texts: Sequence[str], mask: str) -> TokenIds:
        """Tokenise the prompts of texts that have already been truncated."""
        prompts = [self.prompt.apply(text, self.normalize, mask) for text in texts]
        has_sentence_twice = self.prompt.template.between is not None
        if not has_sentence_twice and self.prompt.layers is None:
            return self.original.encode(prompts, NO_LIMIT)
        starts = None
        if has_sentence_twice:
            starts = [self.prompt.start(text, self.normalize) for text in texts]
        return self.original.encode_marked(prompts, starts, self.prompt.layers)

    def shareable(self, ids: Any) -> int:
        """Return how many leading ids of a prompt may be in a shared prefix."""
        return self.original.shareable(ids)

    def auxiliary(self, texts: Sequence[str], max_length: int) -> TokenIds | None:
        """Tokenise the texts in the auxiliary prompt, with the same text rules; return None if there is none."""
        if self.prompt.auxiliary is None:
            return None
        prompt = attrs.evolve(self.prompt, template=self.prompt.auxiliary, layers=None)
        return attrs.evolve(self, prompt=prompt).encode(texts, max_length)

    def truncate(self, texts: Sequence[str], max_length: int) -> list[str]:
        """Return the beginning of each text that has at most `max_length` tokens, not counting the template."""
        return self.original.truncate(texts, max_length)
