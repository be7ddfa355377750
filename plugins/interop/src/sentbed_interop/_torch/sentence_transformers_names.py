"""Names in sentence-transformers folders, for the exporter and the importer."""

from __future__ import annotations

POOLING = {
    "cls": "pooling_mode_cls_token",
    "lasttoken": "pooling_mode_lasttoken",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
}
"""Modes of pooling, with their names in release 5, which release 6 reads as well."""

OWN = "sentbed"
"""Directory that only sentbed reads: an encoder's prompt, and the tokenizer without it."""
OWN_FILE = "encoder.json"
"""Pooler, prompt and `max_length`, as in a recipe."""
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
PREFIX, SUFFIX = "prompt-prefix", "prompt-suffix"
"""Names of a prompt's ids in the tokenizer of a folder."""
