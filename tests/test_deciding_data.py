"""A study is refused if no evaluator can decide between its cells."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentbed.errors import RecipeError
from sentbed_studies.study import read_study

ROOT = Path(__file__).parents[1]
STS = '[[evaluate]]\nuse = "senteval-sts"\ntasks = ["STSB"]\n'


@pytest.mark.parametrize(
    ("evaluate", "decide", "path", "message"),
    [
        (
            STS,
            'evaluator = "sts"',
            "study.decide.evaluator",
            "no cell is evaluated by `sts`",
        ),
        (
            STS + 'at = ["start"]\n',
            "",
            "study.decide",
            "add an `[[evaluate]]`",
        ),
    ],
)
def test_a_study_of_which_no_evaluator_decides_is_refused(
    tmp_path: Path,
    evaluate: str,
    decide: str,
    path: str,
    message: str,
) -> None:
    recipe = tmp_path / "study.toml"
    base = (ROOT / "recipes" / "mini" / "studies" / "quick.toml").as_posix()
    recipe.write_text(f'extends = "{base}"\n{evaluate}[study]\ndecide = {{ {decide} }}')
    with pytest.raises(RecipeError) as caught:
        read_study(recipe, check_files=False)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert message in problem.message
