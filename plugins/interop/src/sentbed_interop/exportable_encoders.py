"""Checks before an export: of features that no other library's format has, and of installed libraries."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sentbed import ModelError

if TYPE_CHECKING:
    from sentbed import Encoder


def require_exportable(encoder: Encoder) -> None:
    """Raise `ModelError` if the pooler gives a vector for each token, or if the backbone has an intervention."""
    pooler = encoder.recipe.pooler
    if pooler.output == "tokens":
        raise ModelError(
            f"the pooler `{pooler.name}` gives a vector of each token, and the format has one of each text; "
            "encode with sentbed, or export an encoder with another pooler"
        )
    intervention = encoder.backbone.protocol.get("intervention")
    if intervention is not None:
        raise ModelError(
            f"the backbone has the intervention `{intervention['use']}`, which changes states between its "
            "blocks, and no other format has that; encode with sentbed, or export an encoder without it"
        )


def library_problems(kind: str) -> Iterator[str]:
    """Yield a message if sentence-transformers is missing; `kind` is `exporter` or `importer`."""
    if importlib.util.find_spec("sentence_transformers") is None:
        yield (
            f"the {kind} `sentence-transformers` needs `sentence-transformers`, not installed here; "
            "run `pip install 'sentbed-interop[sentence-transformers]'`"
        )
