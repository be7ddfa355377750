"""The checks of a paper's rows that need no training: what they take, what they show, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from sentbed.errors import RunError
from sentbed.protocols import ExpectedRow
from sentbed_report.study.published_number_comparison import Number
from sentbed_studies.reproduce_command import reproduce
from sentbed_studies.study import read_study
from sentbed_studies.verification import (
    INCOMPLETE,
    Check,
    exit_code,
    find_checks,
    judge,
)
from toy_plugin import RECIPE

PAPERS = Path(__file__).parents[3] / "recipes" / "papers"

CHECKS = """
[[evaluate]]
use = "gap"

[study.axes.system]
near = {}
far = { "encoder.backbone.init_seed" = 1 }
absent = { "stage" = [{ data = { use = "pairs", path = "no-such-file.csv" }, STAGE }] }
broken = { "stage" = [{ data = { use = "words", rows = 8 }, STAGE }], "stage.s.loss.nan_at" = 1 }
unfit = { "stage" = [{ data = { use = "lines", path = "." }, STAGE }] }

[study.expected."table 1"]
tolerance = 1000.0

[study.expected."table 1".cells]
near = { gap = -1.0 }
absent = { gap = -1.0 }
broken = { gap = -1.0 }
unfit = { gap = -1.0 }

[study.expected."table 2"]
tolerance = 0.001

[study.expected."table 2".cells]
far = { gap = 1.0 }
"""
"""A number that is met, one that cannot be, as a distance is at most 0, and cells that cannot be run: without
a file, with a loss that becomes NaN, and with data that does not fit the loss."""

STAGE = (
    'name = "s", loss = { use = "pull" }, batch_size = 4, epochs = 1, optimizer = { use = "sgd", lr = 0.5 }, '
    'schedule = { use = "falling" }'
)


def number(cell, measured, value=80.0, tolerance=0.5):
    return Number(cell, ExpectedRow("MR", value, tolerance, "Table 1", measured))


def check(name, lacking=""):
    return Check(name, "", None, None, False, lacking)


def ambiguous(cell):
    return Number(cell, ExpectedRow("MR", 80.0, 0.5, "Table 1", None, fits=2))


def contradicted(cell):
    return Number(
        cell,
        ExpectedRow("MR", 80.0, None, "Table 1", 90.0, contradicted="another paper"),
    )


@pytest.mark.parametrize(
    ("numbers", "outcome", "code"),
    [
        ([number("a", 80.5), number("a", 79.5)], "met: 2 of 2 numbers within", 0),
        (
            [number("a", 80.5), number("a", None)],
            "met in part: 1 of 1 number within, 1 not measured",
            INCOMPLETE,
        ),
        ([number("a", 80.5), number("a", 90.0)], "not met: 1 of 2 numbers within", 1),
        (
            [number("a", 90.0), number("a", None)],
            "not met: 0 of 1 number within, 1 not measured",
            1,
        ),
        ([contradicted("a")], "shown only: 0 of 0 numbers within, 1 contradicted", 0),
        (
            [contradicted("a"), number("a", 80.5)],
            "met: 1 of 1 number within, 1 contradicted",
            0,
        ),
        (
            [contradicted("a"), number("a", 90.0)],
            "not met: 0 of 1 number within, 1 contradicted",
            1,
        ),
        (
            [ambiguous("a")],
            "not measured: 0 of 0 numbers within, 1 not measured",
            INCOMPLETE,
        ),
        (
            [ambiguous("a"), number("a", 80.5)],
            "met in part: 1 of 1 number within, 1 not measured",
            INCOMPLETE,
        ),
        (
            [number("a", None)],
            "not measured: 0 of 0 numbers within, 1 not measured",
            INCOMPLETE,
        ),
        (
            [number("a", 80.0, tolerance=None), contradicted("a"), ambiguous("a")],
            "not measured: 0 of 0 numbers within, 1 not measured, 1 contradicted",
            INCOMPLETE,
        ),
    ],
)
def test_a_check_is_met_where_all_numbers_that_decide_are_within_their_tolerance(
    numbers, outcome, code
):
    verdicts = list(judge([check("a")], numbers, {}))
    assert [verdict.outcome for verdict in verdicts] == [outcome]
    assert exit_code(verdicts) == code


def test_a_check_without_numbers_says_why_it_was_not_run():
    checks = [check("a", "no data"), check("b"), check("c")]
    verdicts = list(
        judge(checks, [number("c", 1.0, tolerance=None)], {"b": "no\nmodel"})
    )
    assert [verdict.outcome for verdict in verdicts] == [
        "not run: no data",
        "not run: no model",
        "shown only: 0 of 0 numbers within",
    ]
    assert exit_code(verdicts) == INCOMPLETE
    assert exit_code(verdicts[2:]) == 0


def test_a_missed_number_weighs_more_than_one_that_is_missing():
    numbers = [number("b", 10.0)]
    assert exit_code(list(judge([check("a", "no data"), check("b")], numbers, {}))) == 1


def test_the_checks_of_one_paper_or_of_all_are_found(tmp_path):
    for paper in ("one", "two", "three"):
        (tmp_path / paper).mkdir()
    for paper in ("one", "two"):
        (tmp_path / paper / "verify.toml").write_text("")
    assert list(find_checks(tmp_path, "")) == ["one", "two"]
    assert find_checks(tmp_path, "two") == {"two": tmp_path / "two" / "verify.toml"}
    with pytest.raises(
        RunError, match=r"no `verify\.toml` of `three` in .*; `one`, `two` has one"
    ):
        find_checks(tmp_path, "three")


@pytest.mark.parametrize("paper", find_checks(PAPERS, ""))
def test_the_checks_of_a_paper_train_nothing_and_have_published_numbers(
    paper,
):
    study = read_study(find_checks(PAPERS, paper)[paper], check_files=False)
    published = {
        name for table in study.table.expected.values() for name in table.cells
    }
    assert published == set(study.names)
    assert not study.excluded
    for cell in study.cells:
        assert cell.recipe.stage == ()
        assert (
            cell.recipe.encoders[cell.recipe.main_encoder].backbone.traits.model
            is not None
        )


def test_the_list_of_papers_says_which_have_checks(tmp_path):
    for paper in ("one", "two"):
        (tmp_path / paper).mkdir()
        (tmp_path / paper / "table-1.toml").write_text("")
    (tmp_path / "one" / "verify.toml").write_text("")
    result = CliRunner().invoke(
        reproduce, ["--recipes", str(tmp_path)], catch_exceptions=False
    )
    assert result.output.splitlines() == ["one: table-1, --verify", "two: table-1"]


@pytest.fixture
def verify(put, tmp_path, installed_toy, quick):
    """Run the checks of a paper with the toy's models; return the exit code and the lines."""
    stages = RECIPE.index("[[stage]]")
    put("papers/toy/verify.toml", RECIPE[:stages] + CHECKS.replace("STAGE", STAGE))

    def run(*arguments):
        where = [
            "--recipes",
            str(tmp_path / "papers"),
            "--out",
            str(tmp_path / "studies"),
        ]
        result = CliRunner().invoke(
            reproduce, ["--verify", *where, *arguments], catch_exceptions=False
        )
        return result.exit_code, result.output.splitlines()

    return run


def test_checks_are_run_compared_and_not_run_again(verify, tmp_path):
    code, before = verify("toy", "--dry-run")
    assert code == 0
    # First what is missing, then the table.
    missing, before = before[:2], before[2:]
    assert missing[0].startswith("missing here: toy: absent: ")
    assert "no-such-file.csv` does not exist" in missing[0]
    assert missing[1].startswith("missing here: toy: unfit: ")
    assert [line.split()[1] for line in before[1:]] == [
        "near",
        "far",
        "absent",
        "broken",
        "unfit",
    ]
    assert before[1].endswith("to run")
    assert "cannot run: " in before[3]
    assert "no-such-file.csv` does not exist" in before[3]
    assert before[4].endswith("to run")
    assert "cannot run: " in before[5]
    assert not (tmp_path / "studies").exists()

    code, lines = verify("--workers", "1")
    assert code == 1
    near, far, absent, broken, unfit = lines[-5:]
    assert near.split(maxsplit=2) == ["toy:", "near", "met: 1 of 1 number within"]
    assert far.split(maxsplit=2) == ["toy:", "far", "not met: 0 of 1 number within"]
    assert "no-such-file.csv` does not exist" in absent
    assert "not run: " in broken
    assert "nan" in broken
    assert "not run: " in unfit
    assert "positive" in unfit

    (record,) = (tmp_path / "studies").glob("*/cells/near-*/report.json")
    written = record.stat().st_mtime_ns
    code, lines = verify("--workers", "1", "--only", "system=near")
    assert code == 0
    assert next(line for line in lines if line.startswith("toy: near")).endswith(
        "finished"
    )
    assert lines[-1].split(maxsplit=2) == ["toy:", "near", "met: 1 of 1 number within"]
    assert record.stat().st_mtime_ns == written

    code, lines = verify(
        "--workers", "1", "--only", "system=near", "--only", "system=absent"
    )
    assert code == INCOMPLETE

    code, lines = verify(
        "--workers", "1", "--only", "system=near", "--only", "system=unfit"
    )
    assert code == INCOMPLETE
    assert lines[-1].split(maxsplit=2)[:2] == ["toy:", "unfit"]
    assert "not run: " in lines[-1]


def test_a_table_cannot_be_verified(verify):
    code, lines = verify("toy:table-1")
    assert code == 2
    assert "`--verify` takes a PAPER" in " ".join(lines)
