"""Decisions of a study with `[study.stop]` while it ran: `decisions.json` in its directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import attrs
import cattrs
from sentbed.errors import RunError
from sentbed.helpers import foreign, read_file, write_atomic

DECISIONS = "decisions.json"
SCHEMA = 2

LARGEST_DECISIONS = 1 << 26
"""Largest size in bytes of a file of decisions that is read."""

Promise: TypeAlias = Literal["all", "best"]
"""Error that the error rate bounds: any wrong claim (`all`), or that the best cell is called worse (`best`)."""


@attrs.frozen
class Claim:
    """Claim that a cell is worse than another by more than the margin."""

    cell: str
    than: str
    """Cell that it is worse than."""
    seeds: int
    """Number of seeds at the look."""
    difference: float
    """Estimated difference, in the unit of the score; positive."""
    at_least: float
    """Lower bound of the difference, at the error rate of the study; above the margin."""
    p_value: float
    """p-value, multiplied by the number of looks and of possible claims; below the error rate."""


@attrs.frozen
class Rule:
    """Rule by which cells are stopped."""

    worse_than: Literal["best", "baseline"]
    margin: float
    error_rate: float
    looks: tuple[int, ...]
    """Number of seeds at each look."""
    cells: tuple[str, ...]
    """Names of the cells, whose number determines the number of possible claims."""
    score: str
    """Description of the deciding score."""
    seeds: tuple[int, ...] = ()
    """Seeds in order; a look is at the first of them."""
    promise: Promise = "all"
    """Error that the error rate bounds."""
    prompts: tuple[str, ...] = ()
    """Labels of the prompts, with each of which every seed of a look is run."""
    prompt_factor: Literal["random", "fixed"] | None = None
    """See `StudyData.prompt_factor`; None without prompts."""


@attrs.frozen
class Decisions:
    """Rule of a study, and the claims that were made by it."""

    rule: Rule
    claims: tuple[Claim, ...] = ()
    looks: tuple[int, ...] = ()
    """Number of seeds at each look that was made."""
    at_work: tuple[str, ...] = ()
    """Cells that were not shown to be worse than another."""
    left: Mapping[str, str] = attrs.field(factory=dict)
    """Cell that could not be compared at the last look -> the reason."""
    over_items: bool = True
    """Whether scores had items at the last look; otherwise claims are over seeds alone."""
    ended: bool = False
    """Whether all looks have been made."""
    earlier: tuple[Rule, ...] = ()
    """Rules by which the study decided before, in order of time; empty if the rule was never changed.

    If the study returned to an earlier rule, `rule` is among them.
    """

    @property
    def winner(self) -> str | None:
        """The cell that is left if all others were shown to be worse; else None."""
        return self.at_work[0] if len(self.at_work) == 1 else None

    def last_seeds(self, cell: str) -> int | None:
        """Return the number of seeds after which a cell gets no more; None if it may still get some."""
        for claim in self.claims:
            if claim.cell == cell:
                return claim.seeds
        return self.looks[-1] if self.ended else None


def write_decisions(directory: Path, decisions: Decisions) -> None:
    """Write the decisions of the study in `directory`. Raises `RunError` if the disk is full."""
    content = {"schema": SCHEMA, **attrs.asdict(decisions)}
    write_atomic(directory / DECISIONS, json.dumps(content, indent=1) + "\n")


def read_decisions(directory: Path) -> Decisions | None:
    """Return the decisions of the study in `directory`; None if it has none. Raises `RunError`."""
    path = directory / DECISIONS
    try:
        text = read_file(path, LARGEST_DECISIONS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(
            f"`{path}` cannot be read: {error.strerror or error}; make it readable"
        ) from error
    with foreign(
        RunError,
        f"`{path}` is damaged",
        "remove it and run `sentbed study` there again",
    ):
        content = json.loads(text)
        if content.pop("schema") != SCHEMA:
            raise RunError(
                f"`{path}` is of another version; remove it and run `sentbed study` there again"
            )
        return cattrs.structure(content, Decisions)
