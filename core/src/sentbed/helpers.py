"""Helpers for authors of components, such as functions for files, seeds and batches.

They are used together with the classes of `sentbed.protocols`. Names are imported when they are first used.
"""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed._lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from sentbed._component_names import full_name, release_of
    from sentbed._encoder.batching import plan_batches
    from sentbed._files import (
        TEMPORARY,
        atomic_file,
        read_json,
        read_lines,
        remove_directory,
        sha256,
        write_atomic,
        write_directory,
    )
    from sentbed._item_identities import identities
    from sentbed._json import key_of
    from sentbed._lazy_exports import lazy
    from sentbed._locations import DATA_VARIABLE, data_root
    from sentbed._machine_resources import peak_memory, physical_memory, usable_cores
    from sentbed._seeds import derive
    from sentbed._signals import Stop
    from sentbed.errors import foreign, reason_of
    from sentbed.protocols.evaluation import score_digits, score_text
    from sentbed.protocols.tokens import pad

if not TYPE_CHECKING:
    # `_lazy` reads the names from the imports above.
    __getattr__, __dir__ = _lazy(__name__)
