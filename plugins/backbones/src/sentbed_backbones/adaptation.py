"""Adaptation of a pretrained backbone: low-rank adapters, 4-bit weights, frozen layers."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from attrs.validators import and_, ge, gt, lt
from sentbed import ModelId, SentbedError, locate

from sentbed_backbones.model_file_checks import ADAPTER_CONFIG, is_local

ALL_LINEAR = "all-linear"
ADAPTER_WEIGHTS, PICKLED_ADAPTER = "adapter_model.safetensors", "adapter_model.bin"


def _names_layers(
    _: Any,
    __: Any,
    value: str | tuple[str, ...],
) -> None:
    if not value or (isinstance(value, str) and value != ALL_LINEAR):
        raise ValueError(
            f'expected "{ALL_LINEAR}" or an array of names of layers, such as ["query", "value"]'
        )


@attrs.frozen
class LoRA:
    """A low-rank adapter (Hu et al., 2022): a weight W stays frozen, and alpha / r * B A is added to it.

    B and A are trained. The defaults are those of PromptEOL.
    """

    r: int = attrs.field(default=64, validator=ge(1))
    """Rank of B A, at least 1."""
    alpha: float = attrs.field(default=16.0, validator=gt(0))
    """Scale of the adapter, > 0; B A is multiplied by alpha / r."""
    dropout: float = attrs.field(default=0.05, validator=and_(ge(0), lt(1)))
    """Dropout of the adapter's input in training, in [0, 1)."""
    targets: str | tuple[str, ...] = attrs.field(
        default=ALL_LINEAR, validator=_names_layers
    )
    """The layers that get an adapter: `all-linear` (every linear layer except an output head), or an array of
    the ends of their names (`["q_proj", "v_proj"]`)."""


@attrs.frozen
class Freeze:
    """The parts of a backbone that are not trained."""

    embeddings: bool = False
    """Whether word, position and type embeddings are frozen, and the norm that follows them (BERT). T5's
    relative position biases are frozen with its layers, not with the embeddings."""
    layers: int = attrs.field(default=0, validator=ge(0))
    """Number of transformer layers to freeze, from the first on, with their adapters; in T5, layers of the
    encoder."""


def problems_of_adaptation(
    lora: LoRA | None,
    adapter: ModelId | None,
    quantization: str | None,
    init: str,
) -> Iterator[str]:
    """Yield why a backbone cannot be adapted as the recipe says; each sentence ends with what to do."""
    if lora is not None and adapter is not None:
        yield "`lora` makes a new adapter and `adapter` names a trained one; remove one of the two"
    if quantization == "nf4":
        if init == "random":
            yield (
                '`quantization = "nf4"` is for pretrained weights, and `init` is "random"; '
                "remove `quantization`, or name a pretrained `model`"
            )

        packages = ("peft", "bitsandbytes", "accelerate")
        yield from not_installed('`quantization = "nf4"`', packages, "qlora")
    elif lora is not None:
        yield from not_installed("`lora`", ("peft",), "lora")
    elif adapter is not None:
        yield from not_installed("`adapter`", ("peft",), "lora")

    if adapter is not None and is_local(adapter):
        try:
            directory = locate(adapter)
        except SentbedError as error:
            yield f"the adapter cannot be found: {error}"
            return

        yield from problems_of_adapter(directory)


def problems_of_adapter(directory: Path) -> Iterator[str]:
    """Yield why the adapter in `directory` cannot be loaded; each sentence ends with what to do."""
    if not (directory / ADAPTER_CONFIG).is_file():
        yield f"`{directory}` holds no `{ADAPTER_CONFIG}`; name a directory that peft has saved"
    if not any(
        (directory / name).is_file() for name in (ADAPTER_WEIGHTS, PICKLED_ADAPTER)
    ):
        yield f"found no weights in `{directory}`, expected `{ADAPTER_WEIGHTS}`; fetch the adapter again"


def not_installed(
    what: str,
    packages: tuple[str, ...],
    extra: str,
) -> Iterator[str]:
    """Yield a message if one of the `packages` that `what` needs is missing; the `extra` installs them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        yield (
            f"{what} needs {', '.join(f'`{name}`' for name in missing)}, not installed here; "
            f"run `pip install 'sentbed-backbones[{extra}]'`"
        )
