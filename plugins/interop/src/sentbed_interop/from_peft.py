"""The importer `peft`."""

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
"""Default pooler of each backbone."""
LOCAL = ("pkg:", "data:", ".", "/", "~")
"""Prefixes of locations that are not hub ids."""


@attrs.frozen(kw_only=True)
class FromPEFT(Importer):
    """A LoRA adapter trained with peft, on its base model.

    An adapter does not record how vectors are made from token states: name the pooler that it was trained
    with. The encoder that is saved holds the adapter and the hashes of the base model, not the model;
    `sentbed export` merges the two.
    """

    name: ClassVar[str] = "peft"

    base: ModelId | None = None
    """The base model: a hub id, a local directory or `pkg:PACKAGE/path`; default: that of the adapter."""
    pooler: str | None = None
    """A pooler by name, with its defaults; if omitted `mean`, and on a causal model `prompt-eol`, with
    PromptEOL's template: its authors have published such adapters."""
    max_length: int = attrs.field(default=128, validator=ge(2))
    """Tokens per sentence; an adapter does not say."""

    def recognises(self, source: Path) -> bool:
        """Whether it is a directory with an adapter, and not one of sentence-transformers."""
        return (source / ADAPTER_CONFIG).is_file() and not (
            source / "modules.json"
        ).is_file()

    def read(self, source: Path) -> Encoder:
        """Return the encoder.

        Raises:
            ModelError: if the base model is unavailable, if the adapter is pickled or does more than a
                LoRA, or if pooler and model do not fit together.
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
        """Return the base model and, for a hub id, its revision."""
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
                "place that it has now: `--set base=./MODEL`"
            )
        revision = config.get("revision")
        if not isinstance(revision, str):
            return base, None
        return base, revision or None


def _require_no_pooler(source: Path) -> None:
    """Refuse an adapter on BERT's own pooler, which peft adds if every linear layer gets one."""
    file = source / ADAPTER_WEIGHTS
    if not file.is_file():
        # The backbone's message says what to do then.
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
    """Return the model's `config.json`, downloaded first if it is a hub id."""
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
            f"the hub gives no model `{base}`, which the adapter belongs to: {str(error).splitlines()[0]}; "
            "check the network, or name a copy: `--set base=./MODEL`"
        ) from error
