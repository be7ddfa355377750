"""Imports of large libraries."""

from __future__ import annotations

import gc
import importlib
import sys


def import_heavy(module: str) -> None:
    """Import a large library without garbage collection, which takes a sixth less processor time.

    Nearly all that an import makes stays, and the collector would walk through it again and again.
    """
    if module in sys.modules:
        return
    collects = gc.isenabled()
    gc.disable()
    try:
        importlib.import_module(module)
    finally:
        if collects:
            if not gc.get_freeze_count():
                # Both together make all objects old, so that no collection of young ones walks through them.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
