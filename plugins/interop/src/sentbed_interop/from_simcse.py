"""The importer `simcse`."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge
from sentbed import ModelError
from sentbed.protocols import Importer

if TYPE_CHECKING:
    from sentbed import Encoder

LAYERS = ("mlp.dense", "pooler.dense")
"""Names of the MLP in a training checkpoint and in a released model."""
PREFIXES = ("bert.", "roberta.")


@attrs.frozen(kw_only=True)
class FromSimCSE(Importer):
    """A BERT or RoBERTa with the MLP over [CLS] that SimCSE's code has trained (Gao et al., 2021).

    It is the directory of a training run, with weights `bert.*` or `roberta.*` and `mlp.dense.*`; or a
    released model, in which the MLP replaces BERT's own pooler (`pooler.dense.*`). The latter
    looks like any BERT, so it is read only with `--from simcse`.

    Released weights are pickled (`pytorch_model.bin`), and transformers' `save_pretrained` would drop the
    MLP: so this importer reads them, as tensors only (torch's `weights_only`), by which no code runs.
    """

    name: ClassVar[str] = "simcse"

    mlp_only_train: bool = False
    """Whether the MLP was for training only and [CLS] is the vector. The files do not record it: it is on in
    SimCSE's unsupervised models (`unsup-simcse-*`), off in its supervised ones."""
    max_length: int = attrs.field(default=128, validator=ge(2))
    """Tokens per sentence; the files do not say. SimCSE trains with 32, and its tool encodes with 128."""

    def recognises(self, source: Path) -> bool:
        """Whether its configuration names a class of SimCSE's code, such as `BertForCL`."""
        try:
            config = json.loads((source / "config.json").read_text("utf-8"))
            return any(str(name).endswith("ForCL") for name in config.get("architectures") or ())
        except (OSError, ValueError, AttributeError, TypeError):
            return False

    def read(self, source: Path) -> Encoder:
        """Return the encoder: pooler `cls-mlp`, no head.

        Raises:
            ModelError: if there is no MLP, no BERT or RoBERTa, or if files are missing or damaged.
        """
        from sentbed_interop._torch.importer_common import encoder_of, read_json, set_linear

        kind = read_json(source / "config.json").get("model_type")
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
        if file.suffix == ".safetensors":
            encoder = encoder_of(table, source)
        else:
            encoder = _from_pickled(table, source, weights)
        set_linear(encoder.placed.module.pooler.dense, mlp, file)
        encoder.placed.weights_changed()  # type: ignore[attr-defined]  # the engine is that of `cpu`
        return encoder


def _weights(source: Path) -> tuple[dict[str, Any], Path]:
    """Return all tensors, and a file that they come from."""
    from sentbed_interop._torch.importer_common import read_pickled, read_weights

    for pattern, read in (("*.safetensors", read_weights), ("pytorch_model*.bin", read_pickled)):
        if files := sorted(source.glob(pattern)):
            return {name: value for file in files for name, value in read(file).items()}, files[0]
    raise ModelError(
        f"`{source}` holds no weights (`*.safetensors` or `pytorch_model.bin`); name the directory of a "
        "trained model"
    )


def _mlp(weights: dict[str, Any], file: Path) -> dict[str, Any]:
    for layer in LAYERS:
        if f"{layer}.weight" in weights:
            return {key: weights[name] for key in ("weight", "bias") if (name := f"{layer}.{key}") in weights}
    raise ModelError(
        f"`{file}` has no MLP ({' or '.join(f'`{layer}.weight`' for layer in LAYERS)}): it is no SimCSE "
        'model, or one that pools without; write a recipe with this model and `pooler = { use = "first" }`'
    )


def _from_pickled(table: dict[str, Any], source: Path, weights: dict[str, Any]) -> Encoder:
    """Build the encoder from tensors that backbones would not read, through a temporary copy."""
    from safetensors.torch import save_file

    from sentbed_interop._torch.importer_common import encoder_of

    prefixed = any(name.startswith(PREFIXES) for name in weights)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place)
        for file in source.iterdir():
            # Configuration, vocabulary and tokenizer.
            if file.suffix in (".json", ".txt", ".model"):
                shutil.copy(file, copy)
        # Heads for masked words go: they share tensors with the embeddings.
        kept = {
            name: value.clone().contiguous()
            for name, value in weights.items()
            if not prefixed or name.startswith(PREFIXES)
        }
        save_file(kept, copy / "model.safetensors", {"format": "pt"})
        encoder = encoder_of({**table, "backbone": {**table["backbone"], "model": place}}, source)
    backbone = attrs.evolve(encoder.recipe.backbone, model=table["backbone"]["model"])  # type: ignore[misc]
    encoder.recipe = attrs.evolve(encoder.recipe, backbone=backbone)
    return encoder
