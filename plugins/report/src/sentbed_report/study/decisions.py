"""Decisions that a study with `[study.stop]` made while it ran: `decisions.json` in its directory.

At each look (interim analysis), the study tests its cells with the seeds that have finished so far. A claim is
a test result by which it stops a cell.
"""

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
"""Maximum size in bytes of a `decisions.json`; a larger file is not read."""

Promise: TypeAlias = Literal["all", "best"]
"""Error whose probability the study bounds: any wrong claim (`all`), or the wrong claim that the truly best
cell is worse than another (`best`)."""


@attrs.frozen
class Claim:
    """Claim that one cell is worse than another by more than the margin of the study's rule."""

    cell: str
    than: str
    """The better cell."""
    seeds: int
    """Number of seeds at the look at which the claim was made."""
    difference: float
    """Estimated difference between the cells, in the unit of the score; positive."""
    at_least: float
    """Lower confidence bound of the difference, at the study's error rate; it is above the margin."""
    p_value: float
    """p-value, after multiplication by the number of looks and by the number of possible claims; it is below
    the error rate."""


@attrs.frozen
class Rule:
    """Rule by which a study stops cells."""

    worse_than: Literal["best", "baseline"]
    margin: float
    error_rate: float
    looks: tuple[int, ...]
    """Number of seeds at each look."""
    cells: tuple[str, ...]
    """Names of the cells, whose number determines how many claims are possible."""
    score: str
    """Description of the deciding score."""
    seeds: tuple[int, ...] = ()
    """Seeds in their order; each look uses the first of these seeds."""
    promise: Promise = "all"
    """Error whose probability is at most `error_rate`."""
    prompts: tuple[str, ...] = ()
    """Labels of the prompts. A look at n seeds needs a run of each of these seeds with each prompt."""
    prompt_factor: Literal["random", "fixed"] | None = None
    """See `StudyData.prompt_factor`; None in a study without prompts."""


@attrs.frozen
class Decisions:
    """A study's rule, and the claims that were made by this rule."""

    rule: Rule
    claims: tuple[Claim, ...] = ()
    looks: tuple[int, ...] = ()
    """Number of seeds at each look so far."""
    at_work: tuple[str, ...] = ()
    """Cells that have not been shown to be worse than another cell."""
    left: Mapping[str, str] = attrs.field(factory=dict)
    """Cell that could not be compared at the last look -> the reason."""
    over_items: bool = True
    """Whether the deciding scores had items at the last look; if not, the claims ignore the variance over
    items."""
    ended: bool = False
    """Whether all looks have been made."""
    earlier: tuple[Rule, ...] = ()
    """Rules by which the study decided earlier, the oldest first; empty if the rule was never changed. If the
    study returned to an earlier rule, `rule` is one of them."""

    @property
    def winner(self) -> str | None:
        """The only cell that has not been shown to be worse than another; None if there are several."""
        return self.at_work[0] if len(self.at_work) == 1 else None

    def last_seeds(self, cell: str) -> int | None:
        """Return the number of seeds after which a cell gets no more seeds; None if it may still get some."""
        for claim in self.claims:
            if claim.cell == cell:
                return claim.seeds
        return self.looks[-1] if self.ended else None


def write_decisions(directory: Path, decisions: Decisions) -> None:
    """Write `decisions.json` into the directory of a study. Raises `RunError` if the disk is full."""
    content = {"schema": SCHEMA, **attrs.asdict(decisions)}
    write_atomic(directory / DECISIONS, json.dumps(content, indent=1) + "\n")


def read_decisions(directory: Path) -> Decisions | None:
    """Return the decisions of the study in `directory`; None if it has made none.

    Raises:
        RunError: if `decisions.json` cannot be read, is damaged, or is of another version.
    """
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
