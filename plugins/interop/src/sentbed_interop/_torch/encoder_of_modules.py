"""Encoders with the modules of sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping
from operator import eq
from pathlib import Path
from typing import Any

import torch
from sentbed import Encoder, ModelError, RecipeError
from sentbed.helpers import foreign, read_json
from sentbed.protocols import TokenIds
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from sentbed_interop._torch.compared_texts import SENTENCES
from sentbed_interop._torch.sentence_transformers_check import difference
from sentbed_interop._torch.sentence_transformers_modules import (
    Modules,
    model_directory,
)
from sentbed_interop.similarity_names import COSINE

T5 = ("t5", "mt5", "umt5")

TOLERANCE = 1e-4
"""Largest allowed difference from the vectors of the library, relative to their largest value."""


def encoder_of(
    modules: Modules,
    source: Path,
    prompt: str,
    similarity: str,
) -> Encoder:
    """Build the encoder of these modules, with random weights after the pooling.

    `prompt` is the text before each sentence. The encoder's `max_length` is still to be set, since only its
    tokenizer tells how many tokens the prompt leaves for a sentence.

    Raises:
        ModelError: if no encoder has these parts.
    """
    model = model_directory(source)
    backbone: dict[str, Any] = {"use": "static", "model": str(model.resolve())}
    if not modules.static:
        config = read_json(model / "config.json")
        backbone["use"] = _backbone_name(config, model)
        if _is_bidirectional_decoder(backbone["use"], config):
            backbone["attention"] = "bidirectional"
    table: dict[str, Any] = {
        "backbone": backbone,
        "pooler": {"use": modules.pooler},
        "head": _head(modules),
        "max_length": 2,
    }
    if prompt:
        table["prompt"] = {"template": f"{prompt}{{text}}"}
    if similarity != COSINE:
        table["similarity"] = similarity
    try:
        return Encoder.of(table)
    except RecipeError as error:
        reasons = "; and ".join(map(str, error.problems))
        raise ModelError(f"`{source}` makes no encoder: {reasons}") from error


def _backbone_name(config: Mapping[str, Any], model: Path) -> str:
    """Return the name of the backbone that reads a model with this configuration (`config.json`).

    Raises:
        ModelError: if the configuration has no type of model.
    """
    from transformers.models.auto import modeling_auto

    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise ModelError(
            f"the configuration of `{model}` has no `model_type`; fetch the model again"
        )
    if model_type in T5:
        return "t5"
    if model_type == "opt":
        return "opt"
    if model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "bert"
    if model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return "causal"
    return "bert"


def _is_bidirectional_decoder(backbone: str, config: Mapping[str, Any]) -> bool:
    """Whether a model is a decoder whose attention has been made bidirectional."""
    if backbone not in ("causal", "opt"):
        return False
    if config.get("is_causal") is False:
        return True
    return config.get("use_bidirectional_attention") in (True, "all")


def _head(modules: Modules) -> dict[str, Any]:
    """Return the table of a head with the layers and the normalisation of these modules."""
    head: dict[str, Any] = {"normalize": modules.normalize}
    if not modules.dense:
        return head

    *hidden, last = modules.dense
    head |= {"projection": last.out_features, "bias": last.bias}
    if hidden:
        head["hidden"] = [layer.out_features for layer in hidden]
        head["activation"] = modules.activation
    return head


def set_dense_weights(encoder: Encoder, modules: Modules) -> None:
    """Set the weights of the encoder's pooler and head to those of the `Dense` modules."""
    module: Any = encoder.placed.module
    linears = [
        part for part in module.projection.modules() if hasattr(part, "in_features")
    ]
    layers = list(modules.dense)
    if modules.mlp is not None:
        linears.insert(0, module.pooler.dense)
        layers.insert(0, modules.mlp)
    for linear, layer in zip(linears, layers, strict=True):
        values = layer.linear.state_dict()
        if linear.bias is not None:
            values.setdefault("bias", torch.zeros_like(linear.bias))
        linear.load_state_dict(values)
    encoder.placed.weights_changed()  # type: ignore[attr-defined]


def require_same_vectors(
    encoder: Encoder,
    model: SentenceTransformer,
    source: Path,
    prompt_name: str | None,
) -> None:
    """Raise `ModelError` if the encoder does not give the vectors of the library under the named prompt."""
    model.default_prompt_name = prompt_name
    if encoder.recipe.resolved_prompt is None:
        _truncate_at(model, encoder.recipe.max_length)
    failure = f"the vectors of `{source}` cannot be compared with the encoder's"
    advice = "import a model that gives the states of the last layer for a text"
    with foreign(ModelError, failure, advice):
        largest_difference = difference(encoder, model)
    # Also true if a vector has NaN.
    if not largest_difference <= TOLERANCE:
        raise ModelError(
            f"the encoder would give vectors that are {largest_difference:.2g} apart from those of "
            f"sentence-transformers: `{source}` has a setting that no encoder has; use it with that library"
        )


def _truncate_at(model: SentenceTransformer, length: int) -> None:
    """Let a model truncate texts to `length` tokens."""
    first: Any = model[0]
    if isinstance(first, StaticEmbedding):
        first.tokenizer.enable_truncation(length)
    else:
        first.max_seq_length = length


def tokens_left_for_sentence(
    encoder: Encoder,
    limit: float,
    source: Path,
) -> int:
    """Return the number of tokens left for a sentence, if the input with the prompt has at most `limit` tokens.

    Neighbouring numbers are tried, too. The returned number is the one with which most of the long test texts are
    truncated as in sentence-transformers.

    Raises:
        ModelError: if the prompt leaves too few tokens.
    """
    longest = encoder.backbone.max_length
    limit = int(min(limit, longest))
    prompt, tokenizer = encoder.recipe.resolved_prompt, encoder.backbone.tokenizer
    if prompt is None:
        return limit

    # Measured with a text, since the prompt may have other tokens around an empty text. The limit of 99 tokens is
    # the text's own: it does not truncate the prompt.
    with_prompt = int(encoder.tokenizer().encode(["a"], 99).lengths[0])
    with_text, empty = tokenizer.encode(["a", ""], 99).lengths
    template = with_prompt - int(with_text - empty)
    if template + 2 > limit:
        raise ModelError(
            f"the prompt of `{source}` has {template} tokens, and an input has at most {limit}: too few are "
            "left for a sentence; set a larger `max_length`"
        )

    texts = [" ".join([text] * limit) for text in SENTENCES]
    prefixed = [prompt.template.prefix + text for text in texts]
    expected = _token_rows(tokenizer.encode(prefixed, limit))
    # A text's first word may have more tokens alone than after the prompt, so neighbouring lengths are tried.
    best_length, most_equal = 0, -1
    for change in (0, 1, -1, 2, -2, 3):
        length = limit - template + change
        if length < 2 or length + template > longest:
            continue
        rows = _token_rows(encoder.tokenizer().encode(texts, length))
        equal = list(map(eq, rows, expected)).count(True)
        if equal > most_equal:
            best_length, most_equal = length, equal
    return best_length


def _token_rows(tokens: TokenIds) -> list[list[int]]:
    """Return the token ids of each text."""
    bounds = tokens.offsets
    return [
        tokens.ids[bounds[row] : bounds[row + 1]].tolist() for row in range(len(tokens))
    ]
