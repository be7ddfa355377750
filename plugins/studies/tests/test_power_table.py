from __future__ import annotations

import attrs
import pytest
from click.testing import CliRunner
from sentbed._cli import main as cli
from sentbed.errors import RunError
from sentbed_report.statistics.power import Spread, seeds_needed, smallest_difference
from sentbed_studies.power_table import power_of_spread, power_of_study
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from sentbed_studies.study_command import study as command
from sentbed_studies.study_results import LoadedStudy, load_study
from toy_plugin import TOWERS, quicken

AXES = """
[study]
seeds = [1, 2, 3]
baseline = { lr = "0.5" }
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""
NUMBERS = {
    "base": {1: {"MR": 70.0}, 2: {"MR": 70.5}, 3: {"MR": 70.2}},
    "high": {1: {"MR": 71.0}, 2: {"MR": 71.2}, 3: {"MR": 71.1}},
    "same": {1: {"MR": 70.1}, 2: {"MR": 70.4}, 3: {"MR": 70.3}},
}


def power(*arguments):
    return CliRunner().invoke(command, ["power", *arguments])


def test_given_numbers_make_a_table_of_seeds_and_one_line_a_difference():
    spread = Spread(0.3, 0.2)
    result = power(
        *("--seed-std", "0.3", "--item-std", "0.2", "--seeds", "3", "--seeds", "5"),
        *("--difference", "0.7", "--difference", "1", "--cells", "8"),
    )
    assert result.exit_code == 0, result.output
    first, *rows = result.output.splitlines()
    assert first == (
        "standard deviation over seeds 0.3, standard error of items 0.2; 8 comparisons, power 0.8, level 0.05"
    )
    assert rows[0].split() == ["seeds", "smallest", "difference"]
    for row, seeds in zip(rows[1:3], (3, 5), strict=True):
        least = smallest_difference(spread, seeds, comparisons=16)
        assert row.split() == [str(seeds), f"{least:.3g}"]
    assert (
        rows[3]
        == "difference 0.7: not found with 10,000 seeds: the items or prompts hide it"
    )
    needed = seeds_needed(spread, 1.0, comparisons=16)
    assert rows[4] == f"difference 1: {needed} seeds needed"
    assert power_of_spread(0.3, 0.0, differences=[0.5]).needed[0.5] == seeds_needed(
        Spread(0.3), 0.5
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either DIRECTORY, or `--seed-std` and `--item-std`"),
        (
            ("place", "--seed-std", "1"),
            "give either DIRECTORY, or `--seed-std` and `--item-std`",
        ),
        (("--seed-std", "-1"), "-1.0 is not in the range"),
        (("--seed-std", "nan"), "`seed_std` is nan"),
        (("--seed-std", "0"), "neither seeds nor items vary"),
        (("--seed-std", "1", "--seeds", "1"), "give 2 or more"),
        (("--seed-std", "1", "--level", "2"), "the level is 2.0"),
        (("--seed-std", "1", "--power", "1.5"), "the power is 1.5"),
        (("--seed-std", "1", "--difference", "inf"), "the difference is inf"),
        (("nowhere",), "`nowhere` is neither a run directory"),
    ],
)
def test_bad_input_is_a_message_and_no_traceback(
    arguments,
    message,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.main, ["study", "power", *arguments])
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Traceback" not in result.output


def test_a_study_gives_its_own_spread_seeds_and_comparisons(
    study_of,
):
    data = study_of(NUMBERS, baseline="base")
    (table,) = LoadedStudy(data).power(differences=[1.0])
    assert (table.comparisons, table.shares) == (2, 4)
    assert [*table.smallest] == [3, 6, 12]
    # `high` differs by 1, 0.7, 0.9, `same` by 0.1, -0.1, 0.1: both have two degrees.
    expected = ((0.14 / 3) / 2 + (0.08 / 3) / 2) / 2
    assert table.spread.seed_std == pytest.approx(expected**0.5)
    assert table.needed[1.0] == seeds_needed(table.spread, 1.0, comparisons=4)
    assert str(table).startswith("transfer, p: MR (accuracy), against base\n")
    (of_eight,) = power_of_study(data, comparisons=8)
    assert (of_eight.comparisons, of_eight.shares) == (8, 16)
    (other,) = LoadedStudy(data).power([4], power=0.5, level=0.01)
    assert other.smallest == {4: smallest_difference(table.spread, 4, 0.5, 0.01, 4)}


def test_without_a_baseline_the_spread_is_that_of_differences_from_the_first_cell(
    study_of,
):
    (table,) = power_of_study(study_of(NUMBERS))
    assert table == power_of_study(study_of(NUMBERS, baseline="base"))[0]


def test_one_seed_shows_no_spread(study_of):
    one_seed = {}
    for name, seeds in NUMBERS.items():
        one_seed[name] = {1: seeds[1]}
    data = study_of(one_seed, baseline="base", items=True)
    with pytest.raises(
        RunError, match="not known how much seeds differ; run more seeds, or give"
    ):
        power_of_study(data)
    nothing = attrs.evolve(data, cells=())
    with pytest.raises(RunError, match="no cell has been compared"):
        power_of_study(nothing)


@pytest.mark.usefixtures("installed_toy")
def test_the_command_takes_the_spread_of_a_study_on_disk_and_the_study_keeps_its_margin(
    put, tmp_path, monkeypatch
):
    quicken(monkeypatch)
    run_study(read_study(put("study.toml", TOWERS + AXES)), tmp_path / "study")
    loaded = load_study(tmp_path / "study")
    tables = loaded.power(differences=[100.0])
    assert [table.comparisons for table in tables] == [1] * sum(
        table.columns[-1].ranked for table in loaded.tables
    )
    result = power(str(tmp_path / "study"), "--difference", "100")
    assert result.exit_code == 0, result.output
    assert result.output == "\n\n".join(map(str, tables)) + "\n"
    # The runs without their study: those of one recipe are a cell.
    runs = [str(path) for path in (tmp_path / "study" / "runs").iterdir()]
    again = power(*sorted(runs, key=lambda path: "0.25" in path), "--difference", "100")
    assert again.output.splitlines()[1:] == result.output.splitlines()[1:]
