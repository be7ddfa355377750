"""Time at which this process started. `sentbed_common.code_of` compares it with the age of source files."""

import time

STARTED = time.time()
"""Seconds since the epoch. `sentbed/__init__.py` imports this module before any plugin is imported."""
