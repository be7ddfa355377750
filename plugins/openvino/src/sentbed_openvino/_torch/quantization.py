"""Quantisation of a graph to int8 with NNCF, calibrated on texts."""

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
from sentbed.protocols import BuiltBackbone
from sentbed_hardware.engine_parts.tracing import INPUTS, without_log

SMOOTHING = 0.75
"""SmoothQuant's exponent alpha: the share of the inputs' range that is moved to the weights."""

ATTENTION_PRODUCTS = ".*aten::matmul/MatMul.*"
"""Pattern of the names of the products within attention (scores, and weighted means of values). They are not
quantised."""

TEXTS = "calibration.txt"
"""Name of this package's file with the sentences for calibration, one per line."""

LONGEST = 128
"""Number of tokens to which these sentences are cut."""

REPLACED = (0.0, 0.3, 1.0)
"""Shares of tokens that are replaced by random tokens. They are used in turn, each for every third sentence."""


def int8_protocol() -> dict[str, Any]:
    """Return the settings that int8 depends on, for the protocol that is recorded with every score."""
    return {
        "nncf": importlib.metadata.version("nncf"),
        "smoothing": SMOOTHING,
        "texts": hashlib.sha256(_content()).hexdigest(),
    }


def quantized(graph: Any, backbone: BuiltBackbone) -> Any:
    """Return a graph of OpenVINO whose products are in int8. Weights are quantised symmetrically, inputs are not.

    This is NNCF's post-training quantisation for transformers, with SmoothQuant (Xiao et al., 2023). Two settings
    differ from NNCF's defaults. The range of an activation is that over all calibration texts; NNCF's default is
    the mean of the ranges in each text, which cuts off outliers. Biases are not corrected: the correction would
    use mean activations, and random tokens have other means than real texts.
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
                patterns=[ATTENTION_PRODUCTS], validate=False
            ),
            advanced_parameters=parameters,
        )


def _calibration_inputs(
    backbone: BuiltBackbone,
) -> Iterator[Mapping[str, NDArray[np.int64]]]:
    """Yield the ids and the mask of each calibration text, each `(1, tokens)`.

    Some tokens are replaced by random ones. So the ranges include outliers of the whole vocabulary, and not only
    of these few sentences.
    """
    texts = _content().decode().splitlines()
    longest = min(LONGEST, backbone.max_length)
    tokenizer = backbone.tokenizer
    generator = np.random.default_rng(0)
    vocabulary_size = _largest_embedding(backbone.module)

    special_ids = tokenizer.encode([""], longest).ids
    tokens = tokenizer.encode(texts, longest)
    for number, ids in enumerate(np.split(tokens.ids, tokens.offsets[1:-1])):
        share = REPLACED[number % len(REPLACED)]
        is_chosen = generator.random(len(ids)) < share
        replaced = is_chosen & ~np.isin(ids, special_ids)
        random_ids = generator.integers(vocabulary_size, size=len(ids))
        row = np.where(replaced, random_ids, ids)[None].astype(np.int64)
        yield dict(zip(INPUTS, (row, np.ones_like(row)), strict=True))


def _largest_embedding(module: torch.nn.Module) -> int:
    """Return the number of rows of a module's largest embedding.

    It is the embedding of tokens, unless the model has more positions than tokens.
    """
    size = 1
    for part in module.modules():
        if isinstance(part, torch.nn.Embedding):
            size = max(size, part.num_embeddings)

    return size


def _content() -> bytes:
    """Return the content of the file with the calibration sentences."""
    return (files("sentbed_openvino") / TEXTS).read_bytes()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence NNCF's log messages and progress bars."""
    with without_log(), contextlib.redirect_stdout(io.StringIO()):
        yield
