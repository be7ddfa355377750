"""Names in folders of sentence-transformers that the exporter writes and the importer reads."""

from __future__ import annotations

POOLING = {
    "cls": "pooling_mode_cls_token",
    "lasttoken": "pooling_mode_lasttoken",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
}
"""Mode of pooling -> its key in the settings of release 5, which release 6 reads as well."""

OWN = "sentbed"
"""Directory that only sentbed reads, with an encoder's prompt and the tokenizer without the prompt."""

OWN_FILE = "encoder.json"
"""File in the directory `OWN` with pooler, prompt and `max_length`, as in a recipe."""

TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
"""Files of a tokenizer."""

PREFIX, SUFFIX = "prompt-prefix", "prompt-suffix"
"""Names of the prompt's ids in the post-processor of a folder's tokenizer."""
