"""Hooks of sentbed-studies: `[study]`, `[search]`, their commands, and samplers of cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sentbed import hookimpl
from sentbed.protocols import Lazy

if TYPE_CHECKING:
    from sentbed_common import KnownData


@hookimpl
def commands() -> Mapping[str, Lazy]:
    """Return the commands `study`, `search` and `reproduce`."""
    return {
        "study": Lazy(
            "sentbed_studies.study_command:study",
            "Run the cells of a recipe with `[study]`, and tabulate them.",
        ),
        "search": Lazy(
            "sentbed_studies.search_command:search",
            "Find the best demonstration for a recipe's prompt.",
        ),
        "reproduce": Lazy(
            "sentbed_studies.reproduce_command:reproduce",
            "Run the recipe of a published table, and compare.",
        ),
    }


@hookimpl
def recipe_tables() -> Mapping[str, Lazy]:
    """Return the recipe tables `[study]` and `[search]`."""
    return {
        "study": Lazy(
            "sentbed_studies.study_cells:StudyCells",
            "`[study]`: axes over any values of the recipe; every combination of their labels is a cell.",
        ),
        "search": Lazy(
            "sentbed_studies.demonstration_search_config:Search",
            "`[search]`: search for the best demonstration of a prompt (PromptEOL, section 3.2).",
        ),
    }


@hookimpl
def samplers() -> Mapping[str, Lazy]:
    """Return the samplers, which choose the cells of a study that are run."""
    return {
        "random": Lazy(
            "sentbed_studies.random_sampler:Random",
            "Cells drawn at random without replacement (Bergstra and Bengio, 2012).",
        ),
        "tpe": Lazy(
            "sentbed_studies.tpe_sampler:TPE",
            "Tree-structured Parzen estimator (Bergstra et al., 2011): labels that are common in good cells.",
        ),
    }


@hookimpl
def known_data() -> tuple[KnownData, ...]:
    """Return the files of demonstrations that recipes name but that sentbed does not come with."""
    from sentbed_studies.demonstration_candidates import PUBLISHED
    from sentbed_studies.stsb_demonstrations import STSB

    return (PUBLISHED, STSB)
