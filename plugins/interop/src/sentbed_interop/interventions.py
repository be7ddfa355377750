"""Interventions, which no other library's format has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed import ModelError

if TYPE_CHECKING:
    from sentbed import Encoder


def require_none(encoder: Encoder) -> None:
    """Raise `ModelError` if the backbone has an intervention between its blocks."""
    intervention = encoder.backbone.protocol.get("intervention")
    if intervention is not None:
        raise ModelError(
            f"the backbone has the intervention `{intervention['use']}`, which changes states between its "
            "blocks, and no other format has that; encode with sentbed, or export an encoder without it"
        )
