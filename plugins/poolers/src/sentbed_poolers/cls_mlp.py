"""The pooler `cls-mlp`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from sentbed.protocols import Module, Pooler, PoolerTraits


@attrs.frozen
class ClsMLP(Pooler):
    """The state of the first token ([CLS]), then a dense layer of the same width, then tanh.

    For h the state of [CLS], the vector is tanh(W h + b). The layer is new, not the pretrained one of BERT's
    next-sentence prediction: W is drawn from N(0, 0.02), b is 0.

    Source: SimCSE, section 6.3 (pooling methods); the layer is that of BERT's pooler.
    """

    name: ClassVar[str] = "cls-mlp"

    mlp_only_train: bool = False
    """Whether layer and tanh are used in training only; encoding then uses the bare state of [CLS], like
    `first`. On in SimCSE's unsupervised runs, off in its supervised ones."""

    @property
    def traits(self) -> PoolerTraits:
        """Return what the pooler needs and what it computes when encoding."""
        return PoolerTraits(
            cites=("gao2021simcse",),
            needs=frozenset({"bidirectional"}),
            at_test="first" if self.mlp_only_train else None,
            pooling="cls",
            dense=None if self.mlp_only_train else "dense",
        )

    def build(self, width: int) -> Module:
        """Return `module(TokenStates) -> (batch, width)`."""
        from sentbed_poolers._torch.cls_mlp import ClsMLPPooling

        return ClsMLPPooling(width, self.mlp_only_train)
