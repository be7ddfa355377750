"""What a machine can do."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen
class Finding:
    """One thing that this machine can do, or cannot, for `sentbed doctor`."""

    area: str
    """Findings of one area stand together: `devices`, `precisions`, `attention`, `adapters`, ..."""
    what: str
    """In a few words, such as `bf16` or `runtime cuda`."""
    status: Literal["yes", "no", "limited"]
    detail: str = ""
    """What was found: a version, a device's name, a figure."""
    remedy: str = ""
    """How to get it where it is missing, a clause that says what to do; empty where nothing can be done."""
