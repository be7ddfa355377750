"""Silence of transformers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import transformers


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings and progress bars of transformers; sentbed raises an error for what matters in them."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
