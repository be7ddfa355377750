"""Time at which this process started. Files that have changed since may differ from the loaded code."""

import time

STARTED = time.time()
"""Seconds since the epoch. `sentbed/__init__.py` imports this module before any plugin is imported."""
