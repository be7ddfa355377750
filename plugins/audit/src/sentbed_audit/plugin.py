"""Hooks of sentbed-audit: the commands `audit` and `export-mteb`."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy

sentbed_api = "3.0"


@hookimpl
def commands() -> Mapping[str, Lazy]:
    """Return the commands."""
    return {
        "audit": Lazy(
            "sentbed_audit.audit_command:audit",
            "Say what may be compared and claimed in results: MTEB's, ours, lm-eval's, a CSV.",
        ),
        "export-mteb": Lazy(
            "sentbed_audit.export_command:export_mteb",
            "Write the scores of MTEB's tasks as MTEB's result files.",
        ),
    }
