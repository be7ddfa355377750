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
