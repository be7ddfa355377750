"""The importer `simcse`, for models that SimCSE's code has trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge
from sentbed import DataError, ModelError
from sentbed.helpers import read_json
from sentbed.protocols import Importer
from sentbed_common import read_tensors, weight_files

if TYPE_CHECKING:
    from sentbed import Encoder

LAYERS = ("mlp.dense", "pooler.dense")
"""Names of the MLP's layer: in a training checkpoint, and in a released model."""


@attrs.frozen(kw_only=True)
class FromSimCSE(Importer):
    """A BERT or RoBERTa with an MLP over [CLS], trained by SimCSE's code (Gao et al., 2021).

    The directory of a training run has weights `bert.*` or `roberta.*`, and `mlp.dense.*`. In a released model,
    the MLP replaces BERT's own pooler (`pooler.dense.*`). A released model looks like any BERT, so it is read
    only with `--from simcse`.
    """

    name: ClassVar[str] = "simcse"

    mlp_only_train: bool = False
    """Whether the MLP was used only in training, so that the vector is [CLS] itself. The files do not record it:
    it is true for SimCSE's unsupervised models (`unsup-simcse-*`), and false for its supervised models."""
    max_length: int = attrs.field(default=128, validator=ge(2))
    """Largest number of tokens of a sentence, which the files do not record. SimCSE trains with 32, and its tool
    encodes with 128."""

    def recognises(self, source: Path) -> bool:
        """Whether the configuration in `source` names a class of SimCSE's code, such as `BertForCL`."""
        try:
            names = read_json(source / "config.json").get("architectures") or ()
            return any(str(name).endswith("ForCL") for name in names)
        except (OSError, ValueError, AttributeError, TypeError, DataError):
            return False

    def read(self, source: Path) -> Encoder:
        """Return an encoder with the pooler `cls-mlp` and without a head.

        Raises:
            ModelError: if it is no BERT or RoBERTa with an MLP, or if files are missing or damaged.
        """
        from sentbed_interop._torch.importer_common import encoder_of, set_linear
        from sentbed_interop._torch.importer_common import read_json as read_table

        kind = read_table(source / "config.json").get("model_type")
        if kind not in ("bert", "roberta"):
            raise ModelError(
                f"`{source}` is a `{kind}`, and SimCSE's code trains `bert` and `roberta`; "
                "name the directory of such a model"
            )

        weights, file = _weights(source)
        mlp = _mlp(weights, file)
        table = {
            "backbone": {"use": "bert", "model": str(source.resolve())},
            "pooler": {"use": "cls-mlp", "mlp_only_train": self.mlp_only_train},
            "max_length": self.max_length,
        }
        encoder = encoder_of(table, source)
        set_linear(encoder.placed.module.pooler.dense, mlp, file)
        encoder.placed.weights_changed()  # type: ignore[attr-defined]  # the engine is that of `cpu`
        return encoder


def _weights(source: Path) -> tuple[dict[str, Any], Path]:
    """Return all tensors in a directory, and one of their files for messages.

    Raises:
        ModelError: if there are no weights.
    """
    files = weight_files(source)
    if not files:
        raise ModelError(
            f"`{source}` holds no weights (`*.safetensors` or `pytorch_model.bin`); name the directory of a "
            "trained model"
        )
    weights: dict[str, Any] = {}
    for file in files:
        weights |= read_tensors(file)
    return weights, files[0]


def _mlp(weights: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return weight and bias of the MLP. Raises `ModelError` if there is none."""
    for layer in LAYERS:
        if f"{layer}.weight" not in weights:
            continue
        mlp = {"weight": weights[f"{layer}.weight"]}
        if f"{layer}.bias" in weights:
            mlp["bias"] = weights[f"{layer}.bias"]
        return mlp

    names = " or ".join(f"`{layer}.weight`" for layer in LAYERS)
    raise ModelError(
        f"`{file}` has no MLP ({names}): it is no SimCSE model, or one without MLP; write a recipe with this "
        'model and `pooler = { use = "first" }`'
    )
