"""Export of an encoder to a folder of sentence-transformers: its modules, their files and a README."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import torch
from safetensors.torch import save_file
from sentbed import ModelError, __version__
from sentbed.errors import listed

from sentbed_interop._torch.prompt_limits import (
    DEFAULT,
    longest_input,
    prompts_before_texts,
    require_plain_prompt,
)
from sentbed_interop._torch.sentence_transformers_check import (
    TOLERANCE,
    TOLERANCE_OF_LOW_PRECISION,
    require_same_vectors,
)
from sentbed_interop._torch.sentence_transformers_names import POOLING
from sentbed_interop._torch.sentence_transformers_tokenizer import (
    write_tokenizer_settings,
)
from sentbed_interop._torch.static_embedding import (
    STATIC_EMBEDDING,
    holds_table,
    require_static,
    set_longest_text,
)
from sentbed_interop.merged_adapters import save_merged
from sentbed_interop.similarity_names import similarity_of

if TYPE_CHECKING:
    from sentbed import Encoder

REASONS = {
    "decoder": "it reads the decoder's output",
    "layers": "it reads several layers",
    "logits": "it reads the logits of a language-modelling head",
    "mask-token": "it reads the state of the mask token",
}
"""What a pooler needs besides the last layer -> the reason why sentence-transformers has no equivalent."""


@attrs.frozen(eq=False)
class Dense:
    """A module `Dense` of the folder: a linear layer and the activation after it."""

    linear: torch.nn.Linear
    activation: torch.nn.Module


def write_folder(encoder: Encoder, directory: Path) -> tuple[str, ...]:
    """Write the folder, and return notes on how it differs from the encoder.

    Raises:
        ModelError: if stock modules cannot give the encoder's vectors.
    """
    require_plain_prompt(encoder, "sentence-transformers")
    pooling, layers = pooling_of(encoder), layers_of(encoder)
    _require_last_layer(encoder)
    prompts = prompts_before_texts(encoder)

    save_merged(encoder, directory / "encoder")
    for file in (directory / "encoder" / "backbone").iterdir():
        file.rename(directory / file.name)
    shutil.rmtree(directory / "encoder")

    notes: tuple[str, ...] = ()
    tolerance = TOLERANCE
    if holds_table(directory):
        require_static(encoder, pooling)
        set_longest_text(directory, encoder.recipe.max_length)
        _write_modules(directory, [STATIC_EMBEDDING], layers, encoder)
    else:
        dtype = _dtype(encoder, directory)
        if dtype != "float32":
            tolerance = TOLERANCE_OF_LOW_PRECISION
        notes = tuple(_notes(encoder, dtype))
        length = longest_input(encoder)
        write_tokenizer_settings(directory, length)
        _write_modules(directory, ["Transformer", "Pooling"], layers, encoder)
        _write_pooling(directory, pooling, encoder.backbone.width)
        _write_settings(directory, length, dtype)

    _write_prompts(directory, prompts, similarity_of(encoder))
    (directory / "README.md").write_text(_readme(encoder, notes), "utf-8")
    require_same_vectors(encoder, directory, tolerance)
    return notes


def _notes(encoder: Encoder, dtype: str) -> Iterator[str]:
    """Yield a sentence on each way in which the folder's vectors differ from the encoder's."""
    if encoder.recipe.resolved_prompt is not None:
        yield (
            "Texts that are empty, that end in white space, or that have more than "
            f"{encoder.recipe.max_length} tokens without the prompt have other vectors."
        )
    if dtype != "float32":
        yield f"The weights were in {dtype} and are used in float32 here: vectors differ in the last digits."


def _write_modules(
    directory: Path,
    first: Sequence[str],
    layers: Sequence[Dense],
    encoder: Encoder,
) -> None:
    """Write `modules.json` (the modules `first`, then `layers` and the norm), and the files of `layers`."""
    types = [*first, *["Dense"] * len(layers)]
    if encoder.recipe.head.normalize:
        types.append("Normalize")

    entries = []
    for number, name in enumerate(types):
        path = f"{number}_{name}"
        if number == 0:
            path = ""
        # Release 6 moved the classes, but still accepts these names.
        kind = f"sentence_transformers.models.{name}"
        entry = {"idx": number, "name": str(number), "path": path, "type": kind}
        entries.append(entry)

    _write_json(directory / "modules.json", entries)
    for number, layer in enumerate(layers, len(first)):
        _write_dense(directory / f"{number}_Dense", layer)


def _write_pooling(
    directory: Path,
    pooling: str,
    width: int,
) -> None:
    """Write the settings of the module `Pooling`."""
    config: dict[str, Any] = {"word_embedding_dimension": width}
    for mode, key in POOLING.items():
        config[key] = mode == pooling
    config["include_prompt"] = True
    _write_json(directory / "1_Pooling" / "config.json", config)


def _write_settings(
    directory: Path,
    max_seq_length: int,
    dtype: str,
) -> None:
    """Write the settings of the module `Transformer`."""
    transformer: dict[str, Any] = {
        "max_seq_length": max_seq_length,
        "do_lower_case": False,
    }
    if dtype != "float32":
        # The dense layers are in fp32 and do not accept another precision.
        transformer["model_args"] = {"torch_dtype": "float32"}
    _write_json(directory / "sentence_bert_config.json", transformer)


def _write_prompts(
    directory: Path,
    prompts: Mapping[str, str],
    similarity: str,
) -> None:
    """Write the settings of the whole model: the prompts for tasks, and the similarity."""
    default = None
    if DEFAULT in prompts:
        default = DEFAULT
    whole: dict[str, Any] = {
        "prompts": dict(prompts),
        "default_prompt_name": default,
        "similarity_fn_name": similarity,
    }
    _write_json(directory / "config_sentence_transformers.json", whole)


def pooling_of(encoder: Encoder) -> str:
    """Return the name of the encoder's mode of pooling in sentence-transformers.

    Raises:
        ModelError: if sentence-transformers has no such mode.
    """
    pooler = encoder.recipe.pooler
    pooling = pooler.pooling
    if pooling in POOLING:
        return str(pooling)

    reason = f"it says `pooling = {pooling!r}`"
    if pooling is None:
        reason = "it has layers of its own"
    for need in sorted(pooler.needs):
        if need in REASONS:
            reason = REASONS[need]
            break

    raise ModelError(
        f"the pooler `{pooler.name}` cannot be exported: {reason}, and sentence-transformers pools the token "
        f"states of the last layer ({listed(POOLING)}); train with the pooler `mean`, `first` or `last`, "
        "or take `--to onnx`"
    )


def layers_of(encoder: Encoder) -> list[Dense]:
    """Return the linear layers after pooling: the layer of the pooler, then the layers of the head.

    Raises:
        ModelError: if the encoder is not loaded with PyTorch.
    """
    module = encoder.placed.module
    if module is None:
        raise ModelError(
            "the encoder's engine is not one of PyTorch; load the encoder on the runtime `cpu` and export it"
        )

    head = encoder.recipe.head
    layers = []
    name = encoder.recipe.pooler.dense
    if name:
        layers.append(Dense(getattr(module.pooler, name), torch.nn.Tanh()))

    # With hidden layers, the projection is an `nn.Sequential` of linear layers and activations. Otherwise, it is
    # a single linear layer.
    parts: Iterable[torch.nn.Module] = ()
    if head.projection is not None:
        parts = [module.projection]
    if head.hidden:
        parts = module.projection
    for part in parts:
        if isinstance(part, torch.nn.Linear):
            layers.append(Dense(part, torch.nn.Identity()))
        else:
            layers[-1] = Dense(layers[-1].linear, part)

    # The fitted transform of the head, such as whitening, is linear; without one, it is `nn.Identity`.
    if isinstance(module.transform, torch.nn.Linear):
        layers.append(Dense(module.transform, torch.nn.Identity()))
    if head.dimensions is not None:
        layers = _with_first_dimensions(layers, encoder)
    return layers


def _with_first_dimensions(layers: Sequence[Dense], encoder: Encoder) -> list[Dense]:
    """Return layers whose output has only the first `encoder.width` dimensions.

    sentence-transformers shortens vectors only if the code that loads the folder asks for it. So the last linear
    layer keeps only these outputs. If an activation follows it, that layer stays, and one more layer selects the
    dimensions.
    """
    width = encoder.width
    bias = None
    if layers and isinstance(layers[-1].activation, torch.nn.Identity):
        *others, last = layers
        weight = last.linear.weight[:width]
        if last.linear.bias is not None:
            bias = last.linear.bias[:width]
    else:
        others = list(layers)
        weight = torch.eye(width, encoder.placed.module.untransformed_width)

    linear = torch.nn.Linear(weight.shape[1], width, bias=bias is not None)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)

    return [*others, Dense(linear, torch.nn.Identity())]


def _require_last_layer(encoder: Encoder) -> None:
    """Raise `ModelError` if the backbone averages layers instead of returning the last one."""
    read = encoder.backbone.protocol.get("layers")
    if read is not None:
        raise ModelError(
            f"the backbone averages the layers {read}, and sentence-transformers pools the last one; "
            'train with `layers = "last"`, or take `--to onnx`'
        )


def _dtype(encoder: Encoder, directory: Path) -> str:
    """Return the precision of the weights. Raises `ModelError` if transformers would not load them."""
    config = {}
    file = directory / "config.json"
    if file.is_file():
        config = json.loads(file.read_text("utf-8"))

    name = encoder.recipe.backbone.name
    if "model_type" not in config:
        raise ModelError(
            f"the backbone `{name}` does not save its model as transformers does (`config.json` with a "
            "`model_type`), and sentence-transformers loads no other; take `--to onnx`"
        )
    if "auto_map" in config:
        raise ModelError(
            f"the model `{config['model_type']}` comes with code of its own, which sentence-transformers "
            "loads only with `trust_remote_code`; take `--to onnx`"
        )
    return str(config.get("dtype") or config.get("torch_dtype") or "float32")


def _write_dense(directory: Path, layer: Dense) -> None:
    """Write settings and weights of a module `Dense`."""
    linear, activation = layer.linear, type(layer.activation)
    config = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__qualname__}",
    }
    _write_json(directory / "config.json", config)
    weights = {
        f"linear.{name}": value.detach().contiguous()
        for name, value in linear.named_parameters()
    }
    save_file(weights, directory / "model.safetensors")


def _write_json(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n", "utf-8")


def _readme(encoder: Encoder, notes: Sequence[str]) -> str:
    """Return the folder's README, with how to load it and the notes on differences."""
    recipe, prompt = encoder.recipe, encoder.recipe.resolved_prompt
    parts = f"backbone `{recipe.backbone.name}`, pooler `{recipe.pooler.name}`, width {encoder.width}"
    if prompt is not None:
        parts += f", prompt `{prompt.template}`"
    lines = [
        "# A sentence encoder",
        "",
        f"Written by sentbed {__version__} for sentence-transformers 5 and 6: {parts}.",
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        'vectors = SentenceTransformer("this directory").encode(["a sentence"])',
        "```",
        "",
        "If transformers reports missing weights of a `pooler`, as for BERT: vectors do not depend on them.",
        "",
    ]
    if notes:
        lines += ["## What differs from the encoder in sentbed", ""]
        lines += [f"- {note}" for note in notes]
        lines.append("")
    return "\n".join(lines)
