"""Checkpoints whose weights are quantised, recognised by their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

WITHOUT_SUFFIX = "usually that of the same name without {suffix}"
IN_BF16 = "often a conversion whose name ends in `-BF16`"
ITS_ORIGINAL = "the one that its model card names as the original"


@attrs.frozen
class QuantisationMethod:
    """A method by which published weights are quantised."""

    title: str
    """What its authors call it, with its data type."""
    unquantised: str
    """Where the same weights are to be had unquantised."""


def _suffixed(title: str, *suffixes: str) -> QuantisationMethod:
    quoted = " or ".join(f"`{suffix}`" for suffix in suffixes)
    return QuantisationMethod(title, WITHOUT_SUFFIX.format(suffix=quoted))


METHODS: Mapping[str, QuantisationMethod] = MappingProxyType(
    {
        "aqlm": _suffixed("AQLM (additive codebooks)", "-AQLM"),
        "auto-round": _suffixed("AutoRound (whole numbers)", "-AutoRound"),
        "awq": _suffixed("AWQ (whole numbers of 4 bits)", "-AWQ"),
        "bitnet": _suffixed("BitNet (three values)", "-1.58bit"),
        "bitsandbytes": _suffixed("bitsandbytes", "-bnb-4bit", "-bnb-8bit"),
        "compressed-tensors": _suffixed(
            "compressed-tensors (whole numbers or fp8)",
            "-FP8",
            "-quantized.w4a16",
            "-W8A8",
        ),
        "eetq": QuantisationMethod("EETQ (whole numbers of 8 bits)", ITS_ORIGINAL),
        "fbgemm_fp8": _suffixed("FBGEMM (fp8)", "-FP8"),
        "fouroversix": QuantisationMethod("Four Over Six (fp4)", ITS_ORIGINAL),
        "fp8": QuantisationMethod(
            "fp8 in blocks", f"that of the same name without `-FP8`, or {IN_BF16}"
        ),
        "fp_quant": QuantisationMethod("FP-Quant (fp4)", ITS_ORIGINAL),
        "gemma": QuantisationMethod("the quantisation of Gemma", ITS_ORIGINAL),
        "gguf": _suffixed("GGUF", "-GGUF"),
        "gptq": _suffixed("GPTQ (whole numbers)", "-GPTQ", "-GPTQ-Int4"),
        "higgs": QuantisationMethod("HIGGS (grids of 2 to 4 bits)", ITS_ORIGINAL),
        "hqq": _suffixed("HQQ (whole numbers)", "-HQQ"),
        "metal": QuantisationMethod(
            "Metal's affine quantisation (whole numbers)", ITS_ORIGINAL
        ),
        "mlx": _suffixed("MLX (whole numbers)", "-4bit", "-8bit"),
        "mxfp4": QuantisationMethod("MXFP4 (fp4 in blocks)", IN_BF16),
        "mxfp8": QuantisationMethod("MXFP8 (fp8 in blocks)", IN_BF16),
        "nvfp4": _suffixed("NVFP4 (fp4 in blocks)", "-NVFP4", "-FP4"),
        "quanto": QuantisationMethod("Quanto", ITS_ORIGINAL),
        "quark": QuantisationMethod("Quark", ITS_ORIGINAL),
        "sinq": _suffixed("SINQ (whole numbers)", "-SINQ"),
        "spqr": _suffixed("SpQR (whole numbers of 3 bits)", "-SpQR"),
        "torchao": QuantisationMethod("torchao", ITS_ORIGINAL),
        "vptq": _suffixed("VPTQ (vector codebooks)", "-VPTQ"),
    }
)
"""The methods that transformers reads, and MLX's, under their names in a `config.json`."""


def quantisation_problem(config: Mapping[str, Any]) -> str | None:
    """Return why the weights of a `config.json` cannot be read if they are quantised, else None."""
    settings = config.get("quantization_config")
    if not settings:
        text_config = config.get("text_config")
        settings = (
            text_config.get("quantization_config")
            if isinstance(text_config, Mapping)
            else None
        )
    if not isinstance(settings, Mapping) or not settings:
        return None
    method = settings.get("quant_method")
    if method is None and (
        settings.get("load_in_4bit") or settings.get("load_in_8bit")
    ):
        method = "bitsandbytes"
    if method is None and "quantization" in config:
        method = "mlx"
    if method == "bitsandbytes":
        return _bitsandbytes_problem(settings)
    quantiser = METHODS.get(str(method))
    if quantiser is None:
        return _problem(f"an unknown method ({method!r})", ITS_ORIGINAL)
    return _problem(quantiser.title, quantiser.unquantised)


def _bitsandbytes_problem(settings: Mapping[str, Any]) -> str | None:
    if settings.get("load_in_4bit"):
        precision = (
            str(settings.get("bnb_4bit_quant_type", "fp4")).upper() + " of 4 bits"
        )
    elif settings.get("load_in_8bit"):
        precision = "whole numbers of 8 bits"
    else:
        # It names the library, and quantises nothing.
        return None
    return _problem(f"bitsandbytes ({precision})", METHODS["bitsandbytes"].unquantised)


def _problem(title: str, unquantised: str) -> str:
    return (
        f"the weights are quantised by {title}, and a backbone reads unquantised ones; name their "
        f'unquantised repository, {unquantised}, with `quantization = "nf4"` if they are to be held in 4 bits'
    )
