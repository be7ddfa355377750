"""What several plugins need and core does not."""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed.helpers import lazy as _lazy

if TYPE_CHECKING:
    from sentbed_common.data_collections import KnownArchive, KnownData, KnownFile, KnownMade
    from sentbed_common.docstrings import field_docs
    from sentbed_common.findings import Trial, elsewhere, packages, present, requirements, version_of
    from sentbed_common.machine import core_quota, memory_limit
    from sentbed_common.progress import progress_bars
    from sentbed_common.source_code import code_of, package_code
    from sentbed_common.vector_space import Space, space_of

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)
