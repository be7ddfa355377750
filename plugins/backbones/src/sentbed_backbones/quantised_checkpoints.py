"""Checkpoints whose weights are quantised, recognised by their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

METHODS: Mapping[str, str] = {
    "aqlm": "AQLM (additive codebooks)",
    "auto-round": "AutoRound (whole numbers)",
    "awq": "AWQ (whole numbers of 4 bits)",
    "bitnet": "BitNet (three values)",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors (whole numbers or fp8)",
    "eetq": "EETQ (whole numbers of 8 bits)",
    "fbgemm_fp8": "FBGEMM (fp8)",
    "fouroversix": "Four Over Six (fp4)",
    "fp8": "fp8 in blocks",
    "fp_quant": "FP-Quant (fp4)",
    "gemma": "the quantisation of Gemma",
    "gguf": "GGUF",
    "gptq": "GPTQ (whole numbers)",
    "higgs": "HIGGS (grids of 2 to 4 bits)",
    "hqq": "HQQ (whole numbers)",
    "metal": "Metal's affine quantisation (whole numbers)",
    "mlx": "MLX (whole numbers)",
    "mxfp4": "MXFP4 (fp4 in blocks)",
    "mxfp8": "MXFP8 (fp8 in blocks)",
    "nvfp4": "NVFP4 (fp4 in blocks)",
    "quanto": "Quanto",
    "quark": "Quark",
    "sinq": "SINQ (whole numbers)",
    "spqr": "SpQR (whole numbers of 3 bits)",
    "torchao": "torchao",
    "vptq": "VPTQ (vector codebooks)",
}
"""Title and data type of each quantisation method, by its name in a `config.json`: the methods that
transformers reads, and MLX's."""

SUFFIXES: Mapping[str, str] = {
    "aqlm": "`-AQLM`",
    "auto-round": "`-AutoRound`",
    "awq": "`-AWQ`",
    "bitnet": "`-1.58bit`",
    "bitsandbytes": "`-bnb-4bit` or `-bnb-8bit`",
    "compressed-tensors": "`-FP8` or `-quantized.w4a16` or `-W8A8`",
    "fbgemm_fp8": "`-FP8`",
    "fp8": "`-FP8`",
    "gguf": "`-GGUF`",
    "gptq": "`-GPTQ` or `-GPTQ-Int4`",
    "hqq": "`-HQQ`",
    "mlx": "`-4bit` or `-8bit`",
    "nvfp4": "`-NVFP4` or `-FP4`",
    "sinq": "`-SINQ`",
    "spqr": "`-SpQR`",
    "vptq": "`-VPTQ`",
}
"""Suffixes of a repository's name by which quantised weights usually differ from their original, by method."""

CONVERTED = ("fp8", "mxfp4", "mxfp8")
"""Methods in which some models were first published; the unquantised weights of these models are conversions."""


def quantisation_problem(config: Mapping[str, Any]) -> str | None:
    """Return a message if `config.json` says that the weights are quantised: they cannot be read. Else None."""
    settings = config.get("quantization_config")
    text_config = config.get("text_config")
    if not settings and isinstance(text_config, Mapping):
        settings = text_config.get("quantization_config")
    if not isinstance(settings, Mapping) or not settings:
        return None

    in_4_bits = settings.get("load_in_4bit")
    in_bits = in_4_bits or settings.get("load_in_8bit")
    method = settings.get("quant_method")
    if method is None and in_bits:
        method = "bitsandbytes"
    elif method is None and "quantization" in config:
        method = "mlx"

    title = METHODS.get(str(method), f"an unknown method ({method!r})")
    if method == "bitsandbytes":
        if not in_bits:
            # These settings name the library, but do not say that weights are quantised.
            return None

        precision = "whole numbers of 8 bits"
        if in_4_bits:
            kind = str(settings.get("bnb_4bit_quant_type", "fp4"))
            precision = f"{kind.upper()} of 4 bits"

        title = f"bitsandbytes ({precision})"

    return (
        f"the weights are quantised by {title}, and a backbone reads unquantised ones; name their "
        f'unquantised repository, {_name_of_original(str(method))}, with `quantization = "nf4"` if they are '
        "to be held in 4 bits"
    )


def _name_of_original(method: str) -> str:
    """Return a clause on how to find the repository of the same weights unquantised."""
    places = []
    if method in SUFFIXES:
        places.append(f"usually that of the same name without {SUFFIXES[method]}")
    if method in CONVERTED:
        places.append("often a conversion whose name ends in `-BF16`")

    return " or ".join(places) or "the one that its model card names as the original"
