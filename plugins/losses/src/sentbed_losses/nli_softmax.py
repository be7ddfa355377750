"""The loss `nli-softmax`."""

from __future__ import annotations

from typing import Any

import attrs
from sentbed.protocols import LABEL, Loss, Module


def _distinct(
    _: Any,
    attribute: attrs.Attribute[Any],
    value: tuple[str, ...],
) -> None:
    """Refuse fewer than two names, and a name that appears twice; an attrs validator."""
    if len(value) < 2 or len(set(value)) < len(value):
        raise ValueError(f"`{attribute.name}` must be at least two names, each once")


@attrs.frozen
class NLISoftmax(Loss):
    """A linear classifier of labelled sentence pairs (InferSent, SBERT).

    For a premise u and a hypothesis v, a learned linear layer on [u; v; |u - v|], or on [u; v; |u - v|; u * v],
    gives a logit for each class. The loss is the cross entropy with the label, averaged over the rows. The
    layer is trained with the encoder, but not saved with it.

    Source: Conneau et al. 2017 (InferSent), section 3.1; Reimers and Gurevych 2019 (SBERT), section 3.
    """

    name = "nli-softmax"
    other_names = ("SoftmaxLoss",)
    cites = ("conneau2017infersent", "reimers2019sbert")
    columns = frozenset({"premise", "hypothesis", LABEL})
    takes = frozenset()

    classes: tuple[str, ...] = attrs.field(
        default=("entailment", "neutral", "contradiction"), validator=_distinct
    )
    """The two or more values of the column `label`."""
    product: bool = False
    """Whether u * v is part of the layer's input: true in InferSent, false in SBERT."""

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metric `accuracy` is the share of rows that are classified correctly.
        """
        from sentbed_losses._torch.nli_softmax import NLISoftmaxLoss

        return NLISoftmaxLoss(width, classes=len(self.classes), product=self.product)
