"""Checks of the evaluators' libraries, for `sentbed doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed_common import Finding, packages

OWNER = "sentbed-evaluators"


def findings() -> Iterator[Finding]:
    """Yield a finding for each group of libraries: whether all are installed in suitable versions."""
    yield packages("evaluators", "classifiers", OWNER, ("scikit-learn", "scipy"))
    yield packages("evaluators", "mteb", OWNER, ("mteb",), "mteb")
