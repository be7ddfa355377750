"""Ablation studies: axes over any value of a recipe, run and reported together."""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed.helpers import lazy as _lazy

if TYPE_CHECKING:
    from sentbed_studies.study_results import LoadedStudy, load_study

if not TYPE_CHECKING:
    __getattr__, __dir__ = _lazy(__name__)
