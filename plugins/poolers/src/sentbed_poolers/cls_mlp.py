"""The pooler `cls-mlp`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
from attrs.validators import ge, optional
from sentbed import FilePath, SentbedError, locate
from sentbed.protocols import Module, Pooler, PoolerTraits


@attrs.frozen
class ClsMLP(Pooler):
    """The state of the first token ([CLS]), then a dense layer, then tanh.

    For h the state of [CLS], the vector is tanh(W h + b). The layer is new, not the pretrained one of BERT's
    next-sentence prediction: W is drawn from N(0, 0.02), b is 0; unless `pretrained` or `mlp` takes a trained
    one.

    Source: SimCSE, section 6.3 (pooling methods); the layer is that of BERT's pooler.
    """

    name = "cls-mlp"

    mlp_only_train: bool = False
    """Whether layer and tanh are used in training only; encoding then uses the bare state of [CLS], like
    `first`. On in SimCSE's unsupervised runs, off in its supervised ones."""
    mlp_width: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Numbers that the layer gives; default: as many as a state has, as in SimCSE. With `mlp_only_train` it
    changes the width in training alone, where a loss compares the vector with one of another width, such as
    a larger teacher's."""
    pretrained: bool = False
    """Whether the layer is that of the backbone's own model, from its files: of a released SimCSE its trained
    MLP, of any other BERT the pooler of next-sentence prediction."""
    mlp: FilePath | None = None
    """A safetensors file with the layer to start from, as SimCSE's code trains it: `mlp.dense.*`, or
    `pooler.dense.*` in a released model (and in any BERT, where it is the pooler of next-sentence
    prediction). Default: a new layer. A saved encoder has its own layer, and no need of the file."""

    def check(self) -> Iterator[str]:
        """Yield what is wrong with the file that `mlp` names."""
        yield from problems_of_layer_file(self.mlp, self.pretrained)

    @property
    def traits(self) -> PoolerTraits:
        """Return what the pooler needs and what it computes when encoding."""
        at_test: str | None = None
        dense: str | None = "dense"
        if self.mlp_only_train:
            at_test, dense = "first", None

        return PoolerTraits(
            cites=("gao2021simcse",),
            needs=frozenset({"bidirectional"}),
            at_test=at_test,
            pretrained=self.pretrained,
            new_layer=not (self.mlp_only_train or self.pretrained or self.mlp),
            pooling="cls",
            dense=dense,
        )

    def build(self, width: int) -> Module:
        """Return `module(TokenStates)` -> `(batch, output_width(width))`; see `trained_width` of training.

        Raises:
            ModelError: if the file of `mlp` has no such layer, or one of another width.
        """
        from sentbed_poolers._torch.cls_mlp import MLPPooling
        from sentbed_poolers._torch.first import FirstPooling

        state, mlp_width = FirstPooling(), self.trained_width(width)
        return MLPPooling(state, width, mlp_width, self.mlp_only_train, self.mlp)

    def output_width(self, width: int) -> int:
        """Return the width of a state without the layer, and else that of the layer."""
        if self.mlp_only_train:
            return width

        return self.trained_width(width)

    def trained_width(self, width: int) -> int:
        """Return the width of the layer."""
        return self.mlp_width or width

    def load_pretrained(self, module: Module, directory: Path) -> None:
        """Set the layer to that of the model in `directory`.

        Raises:
            ModelError: if its files have no such layer, or one of another width.
        """
        from sentbed_poolers._torch.cls_mlp import start_from_directory

        start_from_directory(module.dense, directory)


def problems_of_layer_file(location: str | None, pretrained: bool) -> Iterator[str]:
    """Yield what is wrong with the file that `mlp` names, if it does."""
    if location is None:
        return
    if pretrained:
        yield "`mlp` takes the layer of a file, `pretrained` that of the backbone; take one of them out"

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
