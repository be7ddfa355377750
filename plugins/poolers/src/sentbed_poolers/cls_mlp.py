"""The pooler `cls-mlp`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
from attrs.validators import ge, optional
from sentbed import FilePath, SentbedError, locate
from sentbed.protocols import Module, Pooler


@attrs.frozen
class ClsMLP(Pooler):
    """The state of the first token ([CLS]), then a dense layer, then tanh.

    With the state h of [CLS], the vector is tanh(W h + b). By default, the layer is new: W is drawn from a normal
    distribution with standard deviation 0.02, and b is 0. `pretrained` or `mlp` loads a trained layer instead.

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
    mlp: FilePath | None = None
    """A safetensors file from which to load the layer. In a file of a training run of SimCSE's code, the layer
    has the name `mlp.dense.*`, in that of a released model `pooler.dense.*`. In any other BERT, `pooler.dense.*`
    is the pooler of next-sentence prediction. Default: a new layer. A saved encoder contains its layer, and does
    not need this file."""

    def check(self) -> Iterator[str]:
        """Yield the problems of the file in `mlp`."""
        yield from problems_of_layer_file(self.mlp, self.pretrained)

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

    @property
    def new_layer(self) -> bool:
        """Whether encoding uses the layer, and its weights are random."""
        return not (self.mlp_only_train or self.pretrained or self.mlp)

    def build(self, width: int) -> Module:
        """Return the module, which turns `TokenStates` into vectors.

        They are `(batch, trained_width(width))` in training, and `(batch, output_width(width))` when encoding.

        Raises:
            ModelError: if the file in `mlp` has no such layer, or its width is another.
        """
        from sentbed_poolers._torch.cls_mlp import MLPPooling
        from sentbed_poolers._torch.first import FirstPooling

        state, mlp_width = FirstPooling(), self.trained_width(width)
        return MLPPooling(state, width, mlp_width, self.mlp_only_train, self.mlp)

    def output_width(self, width: int) -> int:
        """Return the width of a vector when encoding. It is that of a state if `mlp_only_train` is true, else
        that of the layer's output."""
        if self.mlp_only_train:
            return width

        return self.trained_width(width)

    def trained_width(self, width: int) -> int:
        """Return the width of a vector in training, which is the width of the layer's output."""
        return self.mlp_width or width

    def load_pretrained(self, module: Module, directory: Path) -> None:
        """Load the layer from the files of the model in `directory`.

        Raises:
            ModelError: if the files have no such layer, or its width is another.
        """
        from sentbed_poolers._torch.cls_mlp import load_layer_from_directory

        load_layer_from_directory(module.dense, directory)


def problems_of_layer_file(location: str | None, pretrained: bool) -> Iterator[str]:
    """Yield the problems of the file in the field `mlp`; `pretrained` is the other field of the pooler."""
    if location is None:
        return
    if pretrained:
        yield "`mlp` loads the layer from a file, `pretrained` loads that of the backbone; take one of them out"

    try:
        file = locate(location)
    except SentbedError as error:
        yield str(error)
        return

    if file.suffix != ".safetensors":
        yield (
            f"`mlp` is `{location}`, expected a file `*.safetensors`; convert pickled weights on a machine "
            "where you trust them"
        )
