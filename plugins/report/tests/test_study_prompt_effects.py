"""Scores under each prompt, how large a source of variance prompts are, and runs that are missing."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from sentbed.errors import RunError
from sentbed.protocols import Items, Score
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.item_differences import (
    item_differences,
)
from sentbed_report.study.prompt_effects import rows_under_prompts
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData, with_runs
from sentbed_report.study_page.power_section import power_section
from sentbed_report.study_page.prompts_section import prompts_section

PROMPTS = tuple("pqrstuvw")


def score_of(values, direction="higher"):
    items = Items("mean", values, scale=1.0)
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    score = Score("T", "accuracy", float(values.mean()), protocol, "en", "e", items)
    return attrs.evolve(score, direction=direction)


def study_of(values, direction="higher", baseline="c0"):
    """A study from `(cells, prompts, seeds, items)`."""
    cells = []
    prompts = PROMPTS[: values.shape[1]]
    for number, of_cell in enumerate(values):
        runs = []
        for prompt, of_prompt in zip(prompts, of_cell, strict=True):
            for seed, of_run in enumerate(of_prompt):
                scores = (score_of(of_run, direction),)
                runs.append(
                    CellRun(
                        f"c{number}", seed, "finished", scores=scores, prompt=prompt
                    )
                )
        cells.append(CellInfo(f"c{number}", {}, tuple(runs)))

    seeds = tuple(range(values.shape[2]))
    return StudyData("s", (), tuple(cells), baseline, seeds, prompts=prompts)


def without_score(data, cell, prompt, seed):
    """The study after one of its runs has failed."""

    def failed(run):
        if (run.cell, run.prompt, run.seed) != (cell, prompt, seed):
            return run

        return attrs.evolve(run, status="failed", error="no memory left", scores=())

    return attrs.evolve(data, cells=with_runs(data.cells, failed))


# --- sources of variance -------------------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", ["c0", None])
def test_means_and_deviations_are_those_of_the_differences_or_of_the_scores(baseline):
    rng = np.random.default_rng(5)
    values = rng.normal(size=(2, 4, 3, 50))
    values += rng.normal(size=(2, 4, 1, 1))
    values += rng.normal(size=(2, 1, 3, 1))
    (table,) = summarise(study_of(values, baseline=baseline))
    of_baseline, row = rows_under_prompts(table)

    assert list(row.means.values()) == pytest.approx(values[1].mean((1, 2)))

    varied = values[1]
    if baseline:
        assert not of_baseline.stds
        varied = values[1] - values[0]

    expected = {
        "prompts": varied.mean((1, 2)).std(ddof=1),
        "seeds": varied.mean((0, 2)).std(ddof=1),
        "items": varied.mean((0, 1)).std(ddof=1) / math.sqrt(50),
    }

    assert dict(row.stds) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("seeds", "sources"),
    [
        (3, ["prompts", "seeds", "items"]),
        (1, ["prompts", "items"]),
    ],
)
def test_what_is_unknown_is_no_source(seeds, sources):
    values = np.random.default_rng(15).normal(size=(2, 3, seeds, 40))
    values += np.arange(3)[:, None, None] ** 2
    data = study_of(values)
    tables = summarise(data)

    assert list(rows_under_prompts(tables[0])[-1].stds) == sources

    (table,) = prompts_section(data, tables).tables
    stds = table.rows[-1].cells[3:]

    assert sum(std is not None for std in stds) == len(sources)

    has_power = power_section(tables) is not None

    assert has_power == ("seeds" in sources)


# --- runs that are missing ---------------------------------------------------------------------------------


def test_item_shares_are_of_the_seeds_that_have_a_score_under_every_prompt():
    rng = np.random.default_rng(13)
    values = rng.normal(size=(2, 3, 3, 20))
    values += 5 * np.arange(3)[:, None, None]
    data = without_score(study_of(values), "c1", "q", 0)
    items = item_differences(summarise(data), "c0", "c1", "T").sort_values("item")

    first = values[0].mean((0, 1))
    second = values[1][:, 1:].mean((0, 1))

    assert items["share"].to_numpy() == pytest.approx((second - first) / 20)

    for seed in (1, 2):
        data = without_score(data, "c1", "q", seed)

    (summary,) = summarise(data)

    assert summary.rows[1].cells[0].value is None
    with pytest.raises(RunError, match="no cell `c1` has items"):
        item_differences(summarise(data), "c0", "c1", "T")
