"""What poolers read: token states averaged over layers, and the state of a mask token."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from sentbed import ModelError
from sentbed.protocols import TokenStates
from torch import Tensor, nn

from sentbed_backbones._torch.interventions import Batch, last_tokens
from sentbed_backbones._torch.shared_prefix import joined


class PoolerStates(nn.Module):
    """A forward pass that returns what a pooler reads: states averaged over layers, the mask token's state.

    `states` is the module of the forward pass. It is called in one of three forms, each of which returns
    `TokenStates`:

    - `(input_ids, attention_mask | None)` on all backbones;
    - `(input_ids, attention_mask | None, prefix, auxiliary=...)` on backbones that share a prefix; `prefix` has
      the token ids that precede every row;
    - `(input_ids, attention_mask | None, position_ids=...)` on backbones for `TemplateDenoising`.

    `layers` has the numbers of the layers whose states are averaged. With `keep_layers`, the result has the
    states of every layer, too. `mask_id` is the id of the mask token, or None if the pooler does not read its
    state. With `hides`, tokens may be hidden from the pooler: each call needs the argument `hidden`, and the
    returned mask is never None. See `TokenBatch`.
    """

    def __init__(
        self,
        states: Any,
        layers: tuple[int, ...],
        keep_layers: bool,
        mask_id: int | None,
        hides: bool = False,
    ) -> None:
        super().__init__()
        self.states = states
        self.layers = layers
        self.keep_layers = keep_layers
        self.mask_id = mask_id
        self.hides = hides

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        *prefix: Tensor,
        hidden: Tensor | None = None,
        **auxiliary: Batch,
    ) -> TokenStates:
        """Return the token states for the pooler.

        `hidden`, `(batch, shared + length)`, is that of `TokenBatch.keywords`.

        Raises:
            ModelError: if `hidden` is needed and is None.
        """
        if self.hides and hidden is None:
            raise ModelError(
                "the prompts of this encoder hide tokens, and its module is called without `hidden`; an engine "
                "hands over `TokenBatch.keywords` (docs/engines.md)"
            )
        states: TokenStates = self.states(
            input_ids, attention_mask, *prefix, **auxiliary
        )
        vectors = self.mean_of_layers(states)
        states = states._replace(last_hidden_state=vectors)
        if self.mask_id is not None:
            # The states begin with those of a shared prefix.
            for ids in prefix:
                input_ids = joined(ids[None], input_ids)

            # A text may contain a mask token too; the last one is the template's.
            last = last_tokens(input_ids, input_ids == self.mask_id)
            shape = (-1, 1, vectors.shape[-1])
            mask_state = vectors.gather(1, last[:, None, None].expand(shape))
            states = states._replace(mask_state=mask_state[:, 0])

        if hidden is not None:
            mask = (~hidden).long()
            if states.attention_mask is not None:
                mask = states.attention_mask * mask

            states = states._replace(attention_mask=mask)

        if not self.keep_layers:
            states = states._replace(layers=None)

        return states

    def mean_of_layers(self, states: TokenStates) -> Tensor:
        """Return the states averaged over the layers that are read, `(batch, length, width)`."""
        if self.layers == (-1,):
            last: Tensor = states.last_hidden_state
            return last

        assert states.layers is not None
        read = [states.layers[number] for number in self.layers]
        return torch.stack(read).float().mean(0)


class TemplateDenoising(nn.Module):
    """Runs `PoolerStates`, and subtracts the template's state from the mask token's state.

    The template's state is the mask token's state in the template without a sentence. The tokens behind the
    sentence keep the positions that they have in the text, so the template's state depends on the sentence's
    length. Source: PromptBERT (Jiang et al., 2022), section 4.3.
    """

    def __init__(
        self,
        read: PoolerStates,
        template: EmptyTemplate,
        first_position: int,
    ) -> None:
        super().__init__()
        self.read = read
        self.template = template
        self.first_position = first_position

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
    ) -> TokenStates:
        """Return the token states for the pooler."""
        states: TokenStates = self.read(input_ids, attention_mask)
        if attention_mask is None:
            lengths = torch.full_like(input_ids[:, 0], input_ids.shape[1])
        else:
            lengths = attention_mask.sum(1)

        assert states.mask_state is not None
        return states._replace(mask_state=states.mask_state - self._noise(lengths))

    def _noise(self, lengths: Tensor) -> Tensor:
        """Return the mask state of the template without a sentence, `(batch, width)`.

        It is computed for texts of these lengths, which decide the positions.
        """
        template = self.template
        ids = torch.tensor(template.ids, device=lengths.device)

        order = torch.arange(len(template.ids), device=lengths.device)
        is_behind = order >= template.sentence_place

        sentence = (lengths - len(template.ids)).clamp(min=0)[:, None]
        places = self.first_position + order + sentence * is_behind

        ids = ids.expand(len(lengths), -1)
        states: TokenStates = self.read.states(ids, None, position_ids=places)
        return self.read.mean_of_layers(states)[:, template.mask_place]


class EmptyTemplate(NamedTuple):
    """The tokens of a template without a sentence."""

    ids: tuple[int, ...]
    """Ids of the tokens, special tokens included."""
    sentence_place: int
    """Number of tokens before the place of the sentence."""
    mask_place: int
    """Index of the mask token."""

    @classmethod
    def of(cls, template: tuple[str, str], tokenizer: Any) -> EmptyTemplate:
        """Tokenise a template, which is the text before the sentence and the text behind it.

        White space before the sentence is left out; white space behind the sentence remains.

        Raises:
            ModelError: if a token covers parts of both texts, or if no mask token follows the sentence.
        """
        prefix, suffix = (
            part.replace("{mask}", tokenizer.mask_token) for part in template
        )
        before = tokenizer(prefix.strip())["input_ids"]
        ids = tokenizer((prefix.rstrip() + suffix).strip())["input_ids"]
        mask_id = tokenizer.mask_token_id

        # `before` has special tokens at its beginning and at its end; only the leading ones are counted.
        leading = tokenizer(tokenizer.mask_token)["input_ids"].index(mask_id)
        place = len(before) - len(tokenizer("")["input_ids"]) + leading
        if ids[:place] != before[:place] or mask_id not in ids[place:]:
            raise ModelError(
                f"the template {prefix + '{text}' + suffix!r} is tokenised as {ids} without a sentence, "
                f"which does not begin with its first part, {before[:place]}, or has no mask token behind "
                "it; put punctuation around `{text}`, or use a pooler without `denoise`"
            )

        last = len(ids) - 1 - ids[::-1].index(mask_id)
        return cls(tuple(ids), place, last)
