"""A study that could only decide by test data is refused; what may work is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentbed.errors import RecipeError
from sentbed_studies.study import read_study

ROOT = Path(__file__).parents[1]


def read(directory, evaluate, decide):
    recipe = directory / "study.toml"
    base = (ROOT / "recipes" / "mini" / "studies" / "quick.toml").as_posix()
    tables = "".join(
        f"[[evaluate]]\n{table.strip()}\n" for table in evaluate.split(";")
    )
    recipe.write_text(f'extends = "{base}"\n{tables}[study]\n{decide}\n')
    read_study(recipe, check_files=False)


STS = 'use = "senteval-sts"\ntasks = ["STSB"]'
BOTH = 'use = "senteval-sts"\ntasks = ["STSB", "STSB-dev"]'
PAIRS = 'use = "sts"\npath = "pairs.tsv"'


@pytest.mark.parametrize(
    ("evaluate", "decide"),
    [
        (BOTH, "decide = {}"),
        (BOTH, 'decide = { tasks = ["STSB-dev"] }'),
        (STS, "decide = { test_data = true }"),
        (BOTH, 'decide = { test_data = true, tasks = ["STSB"] }'),
        (f'{PAIRS}\nsplit = "dev"', "decide = {}"),
        (f'{STS}; {PAIRS}\nsplit = "dev"', 'decide = { evaluator = "sts" }'),
        # It says nothing of development data, its scores do.
        ('use = "sentglue"', "decide = {}"),
        ('use = "sentglue"', 'decide = { tasks = ["MNLI-m"] }'),
        # Nobody decides.
        (STS, ""),
    ],
)
def test_a_study_that_may_decide_is_read(tmp_path, evaluate, decide):
    read(tmp_path, evaluate, decide)


@pytest.mark.parametrize(
    ("evaluate", "decide", "path", "message"),
    [
        (
            STS,
            "decide = {}",
            "study.decide",
            'on development data (`tasks = ["STSB-dev"]` of `senteval-sts`)',
        ),
        (
            BOTH,
            'decide = { tasks = ["STSB"] }',
            "study.decide",
            "or set `test_data = true`",
        ),
        (PAIRS, "decide = {}", "study.decide", '(`split = "dev"` of `sts`)'),
        (
            f"{STS}; {PAIRS}\nsplit = 'dev'",
            'decide = { evaluator = "senteval-sts" }',
            "study.decide",
            "test data",
        ),
        (
            STS,
            'decide = { tasks = ["STSB-dev"] }',
            "study.decide.tasks",
            "no cell has scores of the task `STSB-dev`",
        ),
        (
            BOTH,
            'decide = { tasks = ["STSB-dve"] }',
            "study.decide.tasks",
            "Did you mean `STSB-dev`?",
        ),
        (
            STS,
            'decide = { evaluator = "sts" }',
            "study.decide.evaluator",
            "no cell is evaluated by `sts`",
        ),
        (
            f'{PAIRS}\nsplit = "dev"',
            "decide = { test_data = true }",
            "study.decide.test_data",
            "take it out",
        ),
        (
            f'{STS}\nat = ["start"]',
            "decide = {}",
            "study.decide",
            "add an `[[evaluate]]`",
        ),
    ],
)
def test_a_study_that_cannot_decide_is_refused(
    tmp_path, evaluate, decide, path, message
):
    with pytest.raises(RecipeError) as caught:
        read(tmp_path, evaluate, decide)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in problem.message
