"""What the poolers `cls-mlp` and `mask-mlp` share: a dense layer that may come from the backbone's model."""

from __future__ import annotations

from pathlib import Path

from sentbed.protocols import Module, Pooler


class TrainedLayer(Pooler):
    """A pooler with a dense layer and tanh. Its fields are those of the classes that derive from it."""

    __slots__ = ()

    mlp_only_train: bool
    pretrained: bool

    @property
    def new_layer(self) -> bool:
        """Whether encoding uses the layer, and its weights are random."""
        return not (self.mlp_only_train or self.pretrained)

    def load_pretrained(self, module: Module, directory: Path) -> None:
        """Load the layer from the files of the model in `directory`.

        Raises:
            ModelError: if the files have no such layer, or its width is another.
        """
        from sentbed_poolers._torch.cls_mlp import load_layer

        load_layer(module.dense, directory)
