"""Export of an encoder to a folder of sentence-transformers, which the library saves."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokenizers
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from sentbed import ModelError, __version__
from sentbed.errors import listed
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)

from sentbed_interop._torch.prompt_limits import (
    DEFAULT,
    longest_input,
    prompts_before_texts,
    require_plain_prompt,
)
from sentbed_interop._torch.sentence_transformers_check import difference
from sentbed_interop._torch.sentence_transformers_modules import MODES
from sentbed_interop.merged_adapters import save_merged
from sentbed_interop.other_vectors_error import OtherVectorsError
from sentbed_interop.similarity_names import similarity_of

if TYPE_CHECKING:
    from sentbed import Encoder

TOLERANCE = 1e-5
"""Largest allowed difference of vectors, relative to the largest number in them."""

TOLERANCE_OF_LOW_PRECISION = 0.1
"""Largest allowed difference for weights in any other precision than float32.

The encoder then computes in that precision, but the library in float32, so the vectors differ by rounding.
"""

TABLE_FILE, TABLE = "model.safetensors", "embedding.weight"
"""File of a static encoder's weights, and the name of the table in it."""

REASONS = {
    "decoder": "it reads the decoder's output",
    "layers": "it reads several layers",
    "logits": "it reads the logits of a language-modelling head",
    "mask-token": "it reads the state of the mask token",
}
"""What a pooler needs besides the last layer -> the reason why sentence-transformers has no equivalent."""


def write_folder(encoder: Encoder, directory: Path) -> tuple[str, ...]:
    """Write the folder, and return notes on how it differs from the encoder.

    Raises:
        ModelError: if the library's modules cannot give the encoder's vectors.
        OtherVectorsError: if they should give these vectors, but do not.
    """
    require_plain_prompt(encoder, "sentence-transformers")
    pooling, layers = pooling_of(encoder), layers_of(encoder)
    _require_last_layer(encoder)
    prompts = prompts_before_texts(encoder)
    similarity: Any = similarity_of(encoder)

    with tempfile.TemporaryDirectory() as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save_merged(encoder, Path(temporary) / "encoder")
        backbone = Path(temporary) / "encoder" / "backbone"
        dtype = "float32"
        first: list[torch.nn.Module]
        if _holds_table(backbone):
            first = [_static_embedding(encoder, backbone, pooling)]
        else:
            dtype = _dtype(encoder, backbone)
            mode: Any = pooling
            transformer = _transformer(backbone, longest_input(encoder))
            first = [transformer, Pooling(encoder.backbone.width, mode)]
        modules = [*first, *layers]
        if encoder.recipe.head.normalize:
            modules.append(Normalize())

        default = None
        if DEFAULT in prompts:
            default = DEFAULT
        model = SentenceTransformer(
            modules=modules,
            device="cpu",
            prompts=prompts,
            default_prompt_name=default,
            similarity_fn_name=similarity,
        )
        model.save(str(directory), create_model_card=False)
        saved = SentenceTransformer(str(directory), device="cpu")

    notes = tuple(_notes(encoder, dtype))
    (directory / "README.md").write_text(_readme(notes), "utf-8")
    tolerance = TOLERANCE
    if dtype != "float32":
        tolerance = TOLERANCE_OF_LOW_PRECISION
    _require_same_vectors(encoder, saved, tolerance)
    return notes


def _notes(encoder: Encoder, dtype: str) -> Iterator[str]:
    """Yield a sentence on each way in which the folder's vectors differ from the encoder's."""
    if encoder.recipe.resolved_prompt is not None:
        yield (
            "Texts that are empty, that end in white space, or that have more than "
            f"{encoder.recipe.max_length} tokens without the prompt have other vectors."
        )
    if dtype != "float32":
        yield f"The weights were in {dtype} and are in float32 here: vectors differ in the last digits."


def _transformer(backbone: Path, length: int) -> Transformer:
    """Return the module that reads the last layer of a backbone, in fp32.

    Raises:
        ModelError: if its tokenizer has no token for padding.
    """
    transformer: Transformer = Transformer(
        str(backbone), model_kwargs={"dtype": "float32"}, max_seq_length=length
    )
    tokenizer: Any = transformer.tokenizer
    tokenizer.padding_side = "right"
    tokenizer.truncation_side = "right"
    if tokenizer.pad_token is None:
        # The library pads batches with this token, which is masked. LLaMA and GPT-2 have none.
        tokenizer.pad_token = (
            tokenizer.eos_token or tokenizer.bos_token or tokenizer.unk_token
        )
    if tokenizer.pad_token is None:
        raise ModelError(
            "the tokenizer has no special token that could fill a batch; give it a `pad_token` with "
            "transformers, and save it beside the weights"
        )
    return transformer


def _holds_table(backbone: Path) -> bool:
    """Whether a backbone's directory holds only a table of token vectors, and no model of transformers."""
    file = backbone / TABLE_FILE
    if (backbone / "config.json").is_file() or not file.is_file():
        return False
    with safe_open(file, "pt") as weights:
        return list(weights.keys()) == [TABLE]


def _static_embedding(
    encoder: Encoder,
    backbone: Path,
    pooling: str,
) -> StaticEmbedding:
    """Return a table of token vectors as a module, which takes their mean.

    Raises:
        ModelError: if the encoder pools otherwise, or has a prompt.
    """
    if pooling != "mean":
        raise ModelError(
            f"the pooler `{encoder.recipe.pooler.name}` cannot be exported with a table of token vectors: "
            "`StaticEmbedding` of sentence-transformers takes their mean; train with the pooler `mean`"
        )
    if encoder.recipe.resolved_prompt is not None:
        raise ModelError(
            "the encoder has a prompt, and `StaticEmbedding` of sentence-transformers has no place for one; "
            "train without it, since it adds the same to all vectors"
        )
    tokenizer = tokenizers.Tokenizer.from_file(str(backbone / "tokenizer.json"))
    tokenizer.enable_truncation(encoder.recipe.max_length)
    return StaticEmbedding(tokenizer, load_file(backbone / TABLE_FILE)[TABLE])


def pooling_of(encoder: Encoder) -> str:
    """Return the name of the encoder's mode of pooling in sentence-transformers.

    Raises:
        ModelError: if sentence-transformers has no such mode.
    """
    pooler = encoder.recipe.pooler
    pooling = pooler.pooling
    if pooling in MODES:
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
        f"states of the last layer ({listed(MODES)}); train with the pooler `mean`, `first` or `last`, "
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
        layers.append(_dense(getattr(module.pooler, name), torch.nn.Tanh()))

    # With hidden layers, the projection is an `nn.Sequential` of linear layers and activations. Otherwise, it is
    # a single linear layer.
    parts: Iterable[torch.nn.Module] = ()
    if head.projection is not None:
        parts = [module.projection]
    if head.hidden:
        parts = module.projection
    for part in parts:
        if isinstance(part, torch.nn.Linear):
            layers.append(_dense(part, torch.nn.Identity()))
        else:
            layers[-1].activation_function = part

    # The fitted transform of the head, such as whitening, is linear; without one, it is `nn.Identity`.
    if isinstance(module.transform, torch.nn.Linear):
        layers.append(_dense(module.transform, torch.nn.Identity()))
    if head.dimensions is not None:
        layers = _with_first_dimensions(layers, encoder)
    return layers


def _dense(linear: torch.nn.Linear, activation: torch.nn.Module) -> Dense:
    """Return the module `Dense` with a copy of a layer's weights, and the activation after it."""
    bias = None
    if linear.bias is not None:
        bias = linear.bias.detach().clone()
    return Dense(
        linear.in_features,
        linear.out_features,
        bias=bias is not None,
        activation_function=activation,
        init_weight=linear.weight.detach().clone(),
        init_bias=bias,
    )


def _with_first_dimensions(layers: Sequence[Dense], encoder: Encoder) -> list[Dense]:
    """Return layers whose output has only the first `encoder.width` dimensions.

    sentence-transformers shortens vectors only if the code that loads the folder asks for it. So the last linear
    layer keeps only these outputs. If an activation follows it, that layer stays, and one more layer selects the
    dimensions.
    """
    width = encoder.width
    bias = None
    others = list(layers)
    if layers and isinstance(layers[-1].activation_function, torch.nn.Identity):
        last = others.pop().linear
        weight = last.weight[:width]
        if last.bias is not None:
            bias = last.bias[:width]
    else:
        weight = torch.eye(width, encoder.placed.module.untransformed_width)

    linear = torch.nn.Linear(weight.shape[1], width, bias=bias is not None)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return [*others, _dense(linear, torch.nn.Identity())]


def _require_last_layer(encoder: Encoder) -> None:
    """Raise `ModelError` if the backbone averages layers instead of returning the last one."""
    read = encoder.backbone.protocol.get("layers")
    if read is not None:
        raise ModelError(
            f"the backbone averages the layers {read}, and sentence-transformers pools the last one; "
            'train with `layers = "last"`, or take `--to onnx`'
        )


def _dtype(encoder: Encoder, backbone: Path) -> str:
    """Return the precision of the weights. Raises `ModelError` if transformers would not load them."""
    config = {}
    file = backbone / "config.json"
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


def _require_same_vectors(
    encoder: Encoder,
    model: SentenceTransformer,
    tolerance: float,
) -> None:
    """Raise `OtherVectorsError` if sentence-transformers does not give the encoder's vectors."""
    largest_difference = difference(encoder, model)
    # Also true if a vector has NaN.
    if not largest_difference <= tolerance:
        raise OtherVectorsError(
            f"the folder would give vectors that are {largest_difference:.2g} apart: either the backbone "
            f"`{encoder.recipe.backbone.name}` computes something else than sentence-transformers with the same "
            f"files, or the pooler `{encoder.recipe.pooler.name}` is not what it says; take `--to onnx`"
        )


def _readme(notes: Sequence[str]) -> str:
    """Return the folder's README, with how to load it and the notes on differences."""
    lines = [
        "# A sentence encoder",
        "",
        f"Written by sentbed {__version__} for sentence-transformers:",
        '`SentenceTransformer("this directory").encode(["a sentence"])`.',
        "If transformers reports missing weights of a `pooler`, as for BERT: vectors do not depend on them.",
        "",
    ]
    lines += [f"- {note}" for note in notes]
    return "\n".join(lines).rstrip() + "\n"
