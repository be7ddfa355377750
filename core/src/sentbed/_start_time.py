"""Time at which this process started, for `sentbed_common.code_of`."""

import time

STARTED = time.time()
"""`sentbed/__init__.py` imports this module before any plugin is imported."""
