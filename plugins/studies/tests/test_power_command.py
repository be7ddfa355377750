from __future__ import annotations

import pytest
from click.testing import CliRunner
from sentbed._cli import main as cli
from sentbed_report.statistics.power import Spread, seeds_needed, smallest_difference
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from toy_plugin import TOWERS, quicken

AXES = """
[study]
seeds = [1, 2, 3]
baseline = { lr = "0.5" }
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""


def power(*arguments):
    return CliRunner().invoke(cli.main, ["study", "power", *arguments])


def test_spreads_make_a_row_of_smallest_differences_and_needed_seeds():
    spread = Spread(0.3, 0.2)
    result = power(
        *("--seed-std", "0.3", "--item-std", "0.2", "--seeds", "3", "--seeds", "5"),
        *("--difference", "0.7", "--difference", "1", "--cells", "8"),
    )
    assert result.exit_code == 0, result.output
    _, row, *_ = result.output.splitlines()
    numbers = row.split()
    # The other pairs of the nine cells have one half of the level.
    level = 0.05 / 16
    assert numbers[:5] == ["planned", "8", "0.300", "0.200", "0.000"]
    assert numbers[5] == f"{smallest_difference(spread, 3, level):.3f}"
    assert numbers[6] == f"{smallest_difference(spread, 5, level):.3f}"
    assert numbers[7:] == ["over", "10,000", str(seeds_needed(spread, 1.0, level))]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either DIRECTORY, or `--seed-std` and `--item-std`"),
        (("place", "--seed-std", "1"), "give either DIRECTORY, or"),
        (("place", "--cells", "8"), "`--cells` is for `--seed-std` and `--item-std`"),
        (("--seed-std", "-1"), "-1.0 is not in the range"),
        (("--seed-std", "nan"), "`seed_std` is nan"),
        (("--seed-std", "0"), "neither seeds nor items vary"),
        (("--seed-std", "1", "--seeds", "1"), "give 2 or more"),
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
    result = power(*arguments)
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("installed_toy")
def test_a_study_on_disk_gives_its_spread_and_so_do_its_runs_without_it(
    put, tmp_path, monkeypatch
):
    quicken(monkeypatch)
    run_study(read_study(put("study.toml", TOWERS + AXES)), tmp_path / "study")
    of_study = power(str(tmp_path / "study"), "--difference", "100")
    assert of_study.exit_code == 0, of_study.output
    # The runs without their study: those of one recipe are a cell.
    runs = map(str, (tmp_path / "study" / "runs").iterdir())
    again = power(*sorted(runs, key=lambda path: "0.25" in path), "--difference", "100")
    assert again.output == of_study.output

    one_seed = TOWERS + AXES.replace("[1, 2, 3]", "[1]")
    run_study(read_study(put("one.toml", one_seed)), tmp_path / "one")
    result = power(str(tmp_path / "one"))
    assert result.exit_code == 1
    assert "not known how much seeds differ; run more seeds, or give" in result.output
