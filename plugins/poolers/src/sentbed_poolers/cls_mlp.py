"""The pooler `cls-mlp`."""

from __future__ import annotations

import attrs
from attrs.validators import ge, optional
from sentbed.protocols import Module

from sentbed_poolers.trained_layer import TrainedLayer


@attrs.frozen
class ClsMLP(TrainedLayer):
    """The state of the first token ([CLS]), then a dense layer, then tanh.

    With the state h of [CLS], the vector is tanh(W h + b). By default, the layer is new: W is drawn from a normal
    distribution with standard deviation 0.02, and b is 0. `pretrained` loads a trained layer instead.

    Source: SimCSE, section 6.3 (pooling methods). The layer has the form of BERT's pooler.
    """

    name = "cls-mlp"
    cites = ("gao2021simcse",)
    needs = frozenset({"bidirectional"})
    pooling = "cls"

    mlp_only_train: bool = False
    """Whether layer and tanh are used only in training. The vector for encoding is then the state of [CLS]
    itself, as for `first`. True in SimCSE's unsupervised runs, false in its supervised runs."""
    mlp_width: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Width of the layer's output; default: the width of a state, as in SimCSE. With `mlp_only_train`, it sets
    the width in training only. This helps if a loss compares the vectors with those of a larger teacher."""
    pretrained: bool = False
    """Whether to load the layer from the files of the backbone's model. In a model released by SimCSE, this layer
    is the trained MLP; in any other BERT, it is the pooler of next-sentence prediction."""

    @property
    def at_test(self) -> str | None:
        """The pooling without the layer, if encoding leaves it out."""
        if self.mlp_only_train:
            return "first"
        return None

    @property
    def dense(self) -> str | None:
        """The layer, if encoding uses it."""
        if self.mlp_only_train:
            return None
        return "dense"

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors.

        They are `(batch, trained_width(width))` in training, and `(batch, output_width(width))` when encoding.
        """
        from sentbed_poolers._torch.cls_mlp import MLPPooling
        from sentbed_poolers._torch.first import FirstPooling

        mlp_width = self.trained_width(width)
        return MLPPooling(FirstPooling(), width, mlp_width, self.mlp_only_train)

    def output_width(self, width: int) -> int:
        """Return the width of a vector when encoding. It is that of a state if `mlp_only_train` is true, else
        that of the layer's output."""
        if self.mlp_only_train:
            return width

        return self.trained_width(width)

    def trained_width(self, width: int) -> int:
        """Return the width of a vector in training, which is the width of the layer's output."""
        return self.mlp_width or width
