"""int8 by NNCF: weights and inputs of products rounded, calibrated on texts."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import nncf
import numpy as np
import torch
from nncf.quantization.range_estimator import RangeEstimatorParametersSet
from numpy.typing import NDArray
from sentbed.protocols import BuiltBackbone, TokenIds
from sentbed_hardware.engine_parts.traced_graph import INPUTS, without_log

SMOOTHING = 0.75
"""How much of the range of inputs SmoothQuant gives to the weights."""

PRODUCTS_OF_STATES = ".*aten::matmul/MatMul.*"
"""Names of products of states with states, in attention, which are not in int8."""

TEXTS = "calibration.txt"
"""The file of this package with the sentences to calibrate on, one a line."""

LONGEST = 128
"""Tokens of the longest of them."""

REPLACED = (0.0, 0.3, 1.0)
"""Shares of the tokens that are replaced by random ones, of every third sentence each."""


def int8_protocol() -> dict[str, Any]:
    """Return what int8 means, for the protocol of scores."""
    return {
        "nncf": importlib.metadata.version("nncf"),
        "smoothing": SMOOTHING,
        "texts": hashlib.sha256(_content()).hexdigest(),
    }


def quantized(graph: Any, backbone: BuiltBackbone) -> Any:
    """Return a graph of OpenVINO with products in int8; weights are symmetric, inputs are not.

    It is NNCF's post-training quantisation with its pattern of transformers and SmoothQuant (Xiao et al.,
    2023). Ranges are those of all calibration texts; NNCF's default, a mean of the texts' ranges, clamps
    outliers. Biases are not corrected: where tokens are random, the means that NNCF corrects are no text's.
    """
    inputs = list(_calibration_inputs(backbone))
    parameters = nncf.AdvancedQuantizationParameters(
        disable_bias_correction=True,
        activations_range_estimator_params=RangeEstimatorParametersSet.MINMAX,
        smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=SMOOTHING),
    )
    with _quiet():
        return nncf.quantize(
            graph,
            nncf.Dataset(inputs),
            preset=nncf.QuantizationPreset.MIXED,
            target_device=nncf.TargetDevice.CPU,
            subset_size=len(inputs),
            model_type=nncf.ModelType.TRANSFORMER,
            ignored_scope=nncf.IgnoredScope(
                patterns=[PRODUCTS_OF_STATES], validate=False
            ),
            advanced_parameters=parameters,
        )


def _calibration_inputs(
    backbone: BuiltBackbone,
) -> Iterator[Mapping[str, NDArray[np.int64]]]:
    """Yield ids and mask of each text to calibrate on, `(1, tokens)`.

    Sentences to encode have other outliers than these few; tokens of the whole vocabulary have most.
    """
    texts = _content().decode().splitlines()
    longest = min(LONGEST, backbone.max_length)
    tokenizer, draw = backbone.tokenizer, np.random.default_rng(0)

    vocabulary = _rows_of_embedding(backbone.module)

    special_ids = tokenizer.encode([""], longest).ids
    for number, ids in enumerate(_rows(tokenizer.encode(texts, longest))):
        share = REPLACED[number % len(REPLACED)]
        replaced = (draw.random(len(ids)) < share) & ~np.isin(ids, special_ids)
        drawn = draw.integers(vocabulary, size=len(ids))
        row = np.where(replaced, drawn, ids)[None].astype(np.int64)
        yield dict(zip(INPUTS, (row, np.ones_like(row)), strict=True))


def _rows(tokens: TokenIds) -> list[NDArray[np.int32]]:
    """Return the ids of each text."""
    return np.split(tokens.ids, tokens.offsets[1:-1])


def _rows_of_embedding(module: torch.nn.Module) -> int:
    """Return how many tokens a backbone knows: the rows of its largest embedding."""
    return max(
        (
            part.num_embeddings
            for part in module.modules()
            if isinstance(part, torch.nn.Embedding)
        ),
        default=1,
    )


def _content() -> bytes:
    return (files("sentbed_openvino") / TEXTS).read_bytes()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence NNCF's notes and its bars of progress."""
    with without_log(), contextlib.redirect_stdout(io.StringIO()):
        yield
