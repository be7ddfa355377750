"""The command `study`: what it prints and writes of a study that has run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from toy_plugin import TOWERS, quicken

AXES = """
[study]
seeds = [1, 2]
baseline = { lr = "0.5" }
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""

pytestmark = pytest.mark.usefixtures("installed_toy")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(monkeypatch)


@pytest.fixture
def place(put: Callable[[str, str], Path], tmp_path: Path) -> Path:
    """The directory of a study that has run."""
    recipe = put("study.toml", TOWERS + AXES)
    found = CliRunner().invoke(main, ["study", str(recipe), "--out", str(tmp_path / "out"), "--workers", "1"])
    assert found.exit_code == 0, found.output
    return tmp_path / "out"


def plot(*words: str | Path) -> tuple[int, list[str]]:
    found = CliRunner().invoke(main, ["study", "plot", *map(str, words)])
    return found.exit_code, found.output.splitlines()


def test_figures_are_listed_and_written(place: Path, tmp_path: Path) -> None:
    code, lines = plot(place, "--list")
    names = [line.split()[0] for line in lines]
    assert code == 0
    assert names[:1] == ["effects"]
    assert "numbers" in names
    assert plot(place, "--format", "svg") == (0, [str(place / "figures" / f"{name}.svg") for name in names])
    assert all((place / "figures" / f"{name}.svg").is_file() for name in names)
    assert plot(place, "effects", "-o", tmp_path / "a.png", "--width", "2", "--dpi", "50") == (
        0,
        [str(tmp_path / "a.png")],
    )
    assert (tmp_path / "a.png").read_bytes()[16:20] == (100).to_bytes(4, "big")
    assert plot(place, "effects", "--out", tmp_path / "b") == (0, [str(tmp_path / "b" / "effects.pdf")])


def test_a_figure_that_cannot_be_drawn_is_an_error(place: Path, tmp_path: Path) -> None:
    code, lines = plot(place, "cost")
    assert code != 0
    assert "needs a cost that was measured" in " ".join(lines)
    code, lines = plot(place, "effects", "numbers", "-o", tmp_path / "a.pdf")
    assert code == 2
    assert "`-o` is for one NAME" in " ".join(lines)
