"""Types of a model's weights."""

from __future__ import annotations

from typing import Any

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def cast(model: Any, dtype: torch.dtype) -> Any:
    """Cast the weights of a model, but not its buffers: LLaMA's rotary frequencies need their precision."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)

    return model
