"""The settings of the tokenizer in an exported folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sentbed import ModelError


def write_tokenizer_settings(directory: Path, length: int) -> None:
    """Change the tokenizer's settings: its class, padding, truncation and largest number of tokens.

    Raises:
        ModelError: if it has no token for padding.
    """
    file = directory / "tokenizer_config.json"
    config: dict[str, Any] = {}
    if file.is_file():
        config = json.loads(file.read_text("utf-8"))

    # transformers 4 does not know the name of this class in transformers 5, `TokenizersBackend`.
    if config.get("tokenizer_class") in (None, "TokenizersBackend"):
        config["tokenizer_class"] = "PreTrainedTokenizerFast"

    if config.get("pad_token") is None:
        # sentence-transformers pads batches with this token, which is masked. LLaMA and GPT-2 have none.
        config["pad_token"] = (
            config.get("eos_token")
            or config.get("bos_token")
            or config.get("unk_token")
        )
    if not config["pad_token"]:
        raise ModelError(
            "the tokenizer has no special token that could fill a batch; give it a `pad_token` with "
            "transformers, and save it beside the weights"
        )

    config |= {
        "padding_side": "right",
        "truncation_side": "right",
        "model_max_length": length,
    }
    file.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", "utf-8")
