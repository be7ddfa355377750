"""Findings about a machine's capabilities."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen
class Finding:
    """Whether this machine can do one thing, for `sentbed doctor`."""

    area: str
    """Heading under which it is listed: `devices`, `precisions`, `attention`, `adapters`, ..."""
    what: str
    """Subject in a few words, such as `bf16` or `runtime cuda`."""
    status: Literal["yes", "no", "limited"]
    detail: str = ""
    """Details, such as a version, a device's name or a number."""
    remedy: str = ""
    """Clause on how to get it if it is missing; empty if nothing can be done."""
