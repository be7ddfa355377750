"""The loss `nli-softmax`."""

from __future__ import annotations

from typing import Any

import attrs
from sentbed.protocols import LABEL, Loss, LossTraits, Module


def _distinct(_: Any, attribute: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    if len(value) < 2 or len(set(value)) < len(value):
        raise ValueError(f"`{attribute.name}` must be at least two names, each once")


@attrs.frozen
class NLISoftmax(Loss):
    """A linear classifier of labelled sentence pairs (InferSent, SBERT).

    For a premise u and a hypothesis v, softmax over the classes of a learned linear layer on
    [u; v; |u - v|], or on [u; v; |u - v|; u * v], and the cross entropy with the label, averaged over the
    rows. The layer is trained with the encoder and not saved with it.

    Source: Conneau et al. 2017 (InferSent), section 3.1; Reimers and Gurevych 2019 (SBERT), section 3.
    """

    name = "nli-softmax"

    classes: tuple[str, ...] = attrs.field(
        default=("entailment", "neutral", "contradiction"), validator=_distinct
    )
    """The values of the column `label`, two or more."""
    product: bool = False
    """Whether u * v is a feature: true in InferSent, false in SBERT."""

    def build(self, width: int) -> Module:
        """Return `module(inputs) -> LossOutput`; its metric `accuracy` is the share of correct rows."""
        from sentbed_losses._torch.nli_softmax import NLISoftmaxLoss

        return NLISoftmaxLoss(width, classes=len(self.classes), product=self.product)

    @property
    def traits(self) -> LossTraits:
        """Return the columns the loss takes: labelled pairs of these classes."""
        return LossTraits(
            cites=("conneau2017infersent", "reimers2019sbert"),
            needs=frozenset({"premise", "hypothesis", LABEL}),
            takes=frozenset(),
            classes=self.classes,
        )

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return 0: each pair is classified on its own."""
        return 0
