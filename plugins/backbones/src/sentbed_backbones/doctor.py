"""Checks of this machine's support for pretrained models, for `sentbed doctor`: adapters, 4 bits, the hub."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from sentbed import RunError
from sentbed_common import Finding, Trial, elsewhere, packages, present, version_of

from sentbed_backbones.adaptation import RUNS_BITSANDBYTES

OWNER = "sentbed-backbones"
QLORA = ("bitsandbytes", "peft", "accelerate")
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Environment variables, each of which keeps huggingface-hub off the network."""
PRODUCT_SECONDS = 60.0
HUB_SECONDS = 3.0
SIZE = 64
LARGEST_ERROR = 0.2
"""Largest acceptable relative error of a product with 4-bit weights; nf4 causes 0.09 on normal weights."""


def findings() -> Iterator[Finding]:
    """Yield the findings about pretrained models."""
    for name in ("transformers", "tokenizers", "safetensors"):
        yield packages("models", name, OWNER, (name,))

    flash = version_of("flash-attn")
    yield present(
        "attention",
        "flash-attn",
        flash is not None,
        flash or "not installed, and not needed",
    )
    yield packages("adapters", "LoRA", OWNER, ("peft",), "lora")
    yield four_bits()
    yield from hub()


def four_bits() -> Finding:
    """Return whether matrix products with 4-bit weights work on this machine; one product is computed."""
    what, machine = "4 bits (nf4)", (platform.system(), platform.machine())
    if machine not in RUNS_BITSANDBYTES:
        return Finding(
            "adapters", what, "no", f"bitsandbytes does not run on {' '.join(machine)}"
        )

    finding = packages("adapters", what, OWNER, QLORA, "qlora")
    if finding.status == "no":
        return finding

    try:
        product = elsewhere(four_bit_product, PRODUCT_SECONDS)
    except RunError as error:
        remedy = "`pip install --force-reinstall --no-deps bitsandbytes`"
        return Finding(
            "adapters",
            what,
            "no",
            f"{finding.detail}; a product fails: {error}",
            remedy,
        )

    detail = (
        f"{finding.detail}; a product on {product['device']}, relative error "
        f"{product['error']:.2f}"
    )
    return attrs.evolve(finding, detail=detail)


def four_bit_product() -> dict[str, Any]:
    """Multiply a matrix by nf4 weights; return the device and the relative error."""
    import torch

    layers: Any = importlib.import_module("bitsandbytes.nn")
    torch.manual_seed(0)
    device = "cpu"
    if torch.cuda.is_available():
        device = "cuda"

    weights = torch.randn(SIZE, SIZE)
    values = torch.randn(SIZE, SIZE).bfloat16().to(device)
    layer = layers.Linear4bit(
        SIZE,
        SIZE,
        bias=False,
        quant_type="nf4",
        compute_dtype=torch.bfloat16,
    )
    layer.weight = layers.Params4bit(weights, requires_grad=False, quant_type="nf4")
    computed = layer.to(device)(values).float()
    expected = values.float() @ weights.to(device).T
    error = ((computed - expected).norm() / expected.norm()).item()
    if not error < LARGEST_ERROR:
        raise RunError(f"relative error {error:.2f}, expected at most {LARGEST_ERROR}")

    return {"device": device, "error": error}


def hub() -> Iterator[Finding]:
    """Yield whether models can be downloaded, and how many are cached."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        name = next((name for name in OFFLINE if os.environ.get(name)), OFFLINE[0])
        yield present("hub", "model hub", False, f"{name} is set", f"`unset {name}`")
    else:
        detail = f"{constants.ENDPOINT}, not asked"
        yield Trial(
            "hub",
            "model hub",
            "yes",
            detail,
            attempt=lambda: ask_hub(constants.ENDPOINT),
        )

    directory = Path(constants.HF_HUB_CACHE)
    models = list(directory.glob("models--*"))
    blobs = directory.glob("models--*/**/blobs/*")
    size = sum(blob.stat().st_size for blob in blobs if blob.is_file())
    yield Finding(
        "hub",
        "hub cache",
        "yes",
        f"{len(models)} models, {size / 1e9:.1f} GB, {directory}",
    )


def ask_hub(endpoint: str) -> Finding:
    """Return whether the hub answers."""
    import urllib.error
    import urllib.request

    try:
        question = urllib.request.Request(endpoint, method="HEAD")
        with urllib.request.urlopen(question, timeout=HUB_SECONDS) as answer:
            return Finding(
                "hub", "model hub", "yes", f"{endpoint} answers with {answer.status}"
            )
    except urllib.error.HTTPError as error:
        return Finding(
            "hub", "model hub", "limited", f"{endpoint} answers with {error.code}"
        )
    except OSError as error:
        remedy = "`export HTTPS_PROXY=...` or `HF_ENDPOINT=...`; without the hub, name models by directory"
        why = getattr(error, "reason", error)
        return Finding(
            "hub", "model hub", "no", f"{endpoint} does not answer: {why}", remedy
        )
