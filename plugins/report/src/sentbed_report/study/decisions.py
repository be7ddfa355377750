"""What a study with `[study.stop]` decided while it ran, as `decisions.json` in its directory has it."""

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
"""Bytes of the largest file of decisions that is read."""

Promise: TypeAlias = Literal["all", "best"]
"""What an error rate is of: any wrong claim, or a claim that a best cell is worse than another."""


@attrs.frozen
class Claim:
    """That a cell is worse than another by more than the margin."""

    cell: str
    than: str
    """Cell that it is worse than."""
    seeds: int
    """Number of seeds at the look."""
    difference: float
    """Estimate of how much worse it is, in the unit of the score."""
    at_least: float
    """Lower bound of the difference, at the error rate of the study; above the margin."""
    p_value: float
    """p-value, multiplied by the number of looks and of possible claims; below the error rate."""


@attrs.frozen
class Rule:
    """By what cells are stopped."""

    worse_than: Literal["best", "baseline"]
    margin: float
    error_rate: float
    looks: tuple[int, ...]
    """Number of seeds at each look."""
    cells: tuple[str, ...]
    """Names of the cells, whose number decides how many claims are possible."""
    score: str
    """The score that decides, in words."""
    seeds: tuple[int, ...] = ()
    """Seeds in their order; a look is at the first ones."""
    promise: Promise = "all"
    """What the error rate is of."""
    prompts: tuple[str, ...] = ()
    """Labels of the prompts under each of which every seed of a look is run."""
    prompt_factor: Literal["random", "fixed"] | None = None
    """What the prompts are, as `StudyData.prompt_factor`; None without prompts."""


@attrs.frozen
class Decisions:
    """All claims of a study, by the rule."""

    rule: Rule
    claims: tuple[Claim, ...] = ()
    looks: tuple[int, ...] = ()
    """Number of seeds at the looks that were made."""
    at_work: tuple[str, ...] = ()
    """Cells that were not shown to be worse than another."""
    left: Mapping[str, str] = attrs.field(factory=dict)
    """Cell that could not be compared at the last look -> why."""
    over_items: bool = True
    """Whether the last look knew the items behind the scores; else claims are over seeds alone."""
    ended: bool = False
    """Whether no look is left."""
    earlier: tuple[Rule, ...] = ()
    """Rules by which the same study has decided, the first one first, if there were others than `rule`.

    `rule` itself keeps its place among them where the study has come back to it.
    """

    @property
    def winner(self) -> str | None:
        """The only cell that was not shown to be worse than another, if there is one."""
        return self.at_work[0] if len(self.at_work) == 1 else None

    def last_seeds(self, cell: str) -> int | None:
        """Return the number of seeds after which a cell gets no more; None if that is not decided."""
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
