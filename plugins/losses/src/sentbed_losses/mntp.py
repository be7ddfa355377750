"""The loss `mntp`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from attrs.validators import and_, ge, gt, le
from sentbed.protocols import Loss, LossTraits, Module


@attrs.frozen
class MNTP(Loss):
    """Masked next-token prediction: masked tokens are predicted from the states before them.

    Each token of a text, except special tokens, is chosen with `probability`. The share `masked` of the chosen
    tokens is replaced by the mask token, the share `random` by random tokens of the vocabulary. The other chosen
    tokens stay as they are. The backbone's language-modelling head predicts each chosen token i from the state
    before it. The loss is the cross entropy, averaged over the chosen tokens of the batch. With a masked language
    model (`bert`), token i is predicted from state i; this is plain masked language modelling.

    Pooler and head of the encoder are not trained. The mask token is that of the tokenizer, or `_` if it has
    none. A language-modelling head that is not tied to the embedding is loaded from the model's files, and not
    trained.

    Source: LLM2Vec (BehnamGhader et al., 2024), section 2.2, and its code. In LLM2Vec, texts are joined and cut
    to one length; in this loss, each row is a text.
    """

    name = "mntp"
    traits = LossTraits(
        cites=("behnamghader2024llm2vec",),
        needs=frozenset({"anchor"}),
        takes=frozenset(),
        predicts=True,
    )

    probability: float = attrs.field(default=0.2, validator=and_(gt(0), le(1)))
    """Probability that a token is chosen, in (0, 1]. LLM2Vec uses 0.2 for LLaMA and 0.8 for Mistral."""
    masked: float = attrs.field(default=0.8, validator=and_(ge(0), le(1)))
    """Share of the chosen tokens that are replaced by the mask token, in [0, 1]. LLM2Vec uses 0.8, but 1 for
    Mistral."""
    random: float = attrs.field(default=0.1, validator=and_(ge(0), le(1)))
    """Share of the chosen tokens that are replaced by random tokens, in [0, 1]. LLM2Vec uses 0.1, but 0 for
    Mistral."""

    def __attrs_post_init__(self) -> None:
        if self.masked + self.random > 1 + 1e-9:
            raise ValueError(
                f"`masked` and `random` are {self.masked} and {self.random}, shares of the chosen tokens "
                "that make more than 1; lower one of them"
            )

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metric `accuracy` is the share of the chosen tokens that are predicted correctly.
        """
        from sentbed_losses._torch.mntp import MNTPLoss

        return MNTPLoss(
            probability=self.probability,
            masked=self.masked,
            random=self.random,
        )

    def misfits(self, batch_size: int, fixed: frozenset[str]) -> Iterator[str]:
        """Yield a problem if the encoder of `anchor` is frozen, since nothing would be trained."""
        if "anchor" in fixed:
            yield "the loss `mntp` trains the encoder of `anchor`, which is frozen; take it out of `freeze`"

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return 0, since no texts are compared."""
        return 0
