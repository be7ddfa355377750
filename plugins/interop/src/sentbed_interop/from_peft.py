"""The importer `peft`, for LoRA adapters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import ge
from sentbed import ModelError, ModelId, locate
from sentbed.protocols import Importer

if TYPE_CHECKING:
    from sentbed import Encoder

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
POOLERS: Mapping[str, str] = {
    "bert": "mean",
    "t5": "mean",
    "opt": "prompt-eol",
    "causal": "prompt-eol",
}
"""Backbone -> its default pooler."""

LOCAL = ("pkg:", "data:", ".", "/", "~")
"""Prefixes of locations that are not hub ids."""


@attrs.frozen(kw_only=True)
class FromPEFT(Importer):
    """A LoRA adapter trained with peft, on its base model.

    An adapter does not record how vectors are made from token states: name the pooler that it was trained
    with. The saved encoder has the adapter, but only hashes of the base model's files. `sentbed export` merges
    the adapter into the base model's weights.
    """

    name: ClassVar[str] = "peft"

    base: ModelId | None = None
    """The base model: a hub id, a local directory or `pkg:PACKAGE/path`. By default, the model that the adapter
    names."""
    pooler: str | None = None
    """Name of the pooler, which has its default fields. By default `mean`; on a causal model `prompt-eol` with
    PromptEOL's template, since its authors have published such adapters."""
    max_length: int = attrs.field(default=128, validator=ge(2))
    """Largest number of tokens of a sentence, which an adapter does not record."""

    def recognises(self, source: Path) -> bool:
        """Whether `source` is a directory with an adapter, and no folder of sentence-transformers."""
        if (source / "modules.json").is_file():
            return False
        return (source / ADAPTER_CONFIG).is_file()

    def read(self, source: Path) -> Encoder:
        """Return an encoder of the base model with the adapter.

        Raises:
            ModelError: if the base model is unavailable, if the adapter is pickled or is more than a LoRA, or
                if pooler and model do not fit together.
        """
        from sentbed_interop._torch.importer_common import (
            backbone_for,
            encoder_of,
            read_json,
        )

        config = read_json(source / ADAPTER_CONFIG)
        base, revision = self._base(config, source)
        kind = backbone_for(read_json(_config_file(base, revision)), base)
        _require_no_pooler(source)

        backbone = {"use": kind, "model": base, "adapter": str(source.resolve())}
        if revision is not None:
            backbone["revision"] = revision
        pooler = self.pooler or POOLERS[kind]
        table = {
            "backbone": backbone,
            "pooler": {"use": pooler},
            "max_length": self.max_length,
        }
        return encoder_of(table, source)

    def _base(self, config: Mapping[str, Any], source: Path) -> tuple[str, str | None]:
        """Return the location of the base model, and its revision if the adapter names one on the hub.

        Raises:
            ModelError: if no base model is named, or if a local one does not exist.
        """
        if self.base is not None:
            return self.base, None

        base = config.get("base_model_name_or_path")
        if not isinstance(base, str) or not base:
            raise ModelError(
                f"the adapter in `{source}` does not say which model it belongs to; name it: "
                "`--set base=./MODEL`, or a hub id"
            )
        if Path(base).is_dir():
            return str(Path(base).resolve()), None
        if base.startswith(LOCAL):
            raise ModelError(
                f"the adapter in `{source}` belongs to the model in `{base}`, which is not there; name the "
                "place where it is now: `--set base=./MODEL`"
            )

        revision = config.get("revision")
        if not isinstance(revision, str):
            return base, None
        return base, revision or None


def _require_no_pooler(source: Path) -> None:
    """Raise `ModelError` if an adapter changes BERT's own pooler, as peft does if it adapts all linear layers."""
    file = source / ADAPTER_WEIGHTS
    if not file.is_file():
        # The backbone raises an error, with what to do.
        return
    from sentbed_interop._torch.importer_common import read_weights

    for name in sorted(read_weights(file)):
        if ".pooler.dense." in name:
            raise ModelError(
                f"the adapter in `{source}` has weights for BERT's own pooler (`{name}`), which a backbone "
                "leaves out; where its vectors do not come from that pooler, take these weights out of "
                f"`{ADAPTER_WEIGHTS}`, or train with `add_pooling_layer=False`"
            )


def _config_file(base: str, revision: str | None) -> Path:
    """Return the path of the model's `config.json`, which is downloaded if the model is on the hub.

    Raises:
        ModelError: if it cannot be downloaded.
    """
    if base.startswith(LOCAL):
        return locate(base) / "config.json"
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
    )

    try:
        return Path(hf_hub_download(base, "config.json", revision=revision))
    except (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OSError,
    ) as error:
        raise ModelError(
            f"the hub gives no model `{base}`, to which the adapter belongs: {str(error).splitlines()[0]}; "
            "check the network, or name a copy: `--set base=./MODEL`"
        ) from error
