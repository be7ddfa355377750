"""The loss `mntp`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from attrs.validators import and_, ge, gt, le
from sentbed.protocols import Loss, LossTraits, Module


@attrs.frozen
class MNTP(Loss):
    """Masked next-token prediction: masked tokens are predicted from the states before them.

    Of the tokens of a text that are not special, each is chosen with `probability`; of the chosen ones the
    share `masked` is replaced by the mask token, the share `random` by a token drawn from the vocabulary, and
    the others stay. The loss is the cross entropy of each chosen token x_i at the state i - 1, by the
    backbone's language-modelling head, averaged over the chosen tokens of the batch. On a masked language
    model (`bert`) the state is i itself: plain masked language modelling.

    Pooler and head of the encoder are not trained. The mask token is that of the tokenizer or, in its
    absence, `_`. The weights of a head that is not tied to the embedding are read from the model's files and
    stay as they are.

    Source: LLM2Vec (BehnamGhader et al., 2024), section 2.2, and its code. There, texts are joined and cut to
    one length; here each row is a text.
    """

    name = "mntp"
    traits = LossTraits(
        cites=("behnamghader2024llm2vec",),
        needs=frozenset({"anchor"}),
        takes=frozenset(),
        predicts=True,
    )

    probability: float = attrs.field(default=0.2, validator=and_(gt(0), le(1)))
    """Probability in (0, 1] that a token is chosen; LLM2Vec: 0.2 for LLaMA, 0.8 for Mistral."""
    masked: float = attrs.field(default=0.8, validator=and_(ge(0), le(1)))
    """Share in [0, 1] of the chosen tokens that become the mask token; LLM2Vec: 0.8, 1 for Mistral."""
    random: float = attrs.field(default=0.1, validator=and_(ge(0), le(1)))
    """Share in [0, 1] of the chosen tokens that become any token; LLM2Vec: 0.1, 0 for Mistral."""

    def __attrs_post_init__(self) -> None:
        if self.masked + self.random > 1 + 1e-9:
            raise ValueError(
                f"`masked` and `random` are {self.masked} and {self.random}, shares of the chosen tokens "
                "that make more than 1; lower one of them"
            )

    def build(self, width: int) -> Module:
        """Return `module(inputs) -> LossOutput`; its metric `accuracy` is the share of tokens predicted."""
        from sentbed_losses._torch.mntp import MNTPLoss

        return MNTPLoss(
            probability=self.probability, masked=self.masked, random=self.random
        )

    def misfits(self, batch_size: int, fixed: frozenset[str]) -> Iterator[str]:
        """Yield a problem if a frozen encoder reads the texts: nothing would be trained."""
        if "anchor" in fixed:
            yield "the loss `mntp` trains the encoder of `anchor`, which is frozen; take it out of `freeze`"

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return 0: texts are not compared."""
        return 0
