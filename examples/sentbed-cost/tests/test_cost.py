from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sentbed

from sentbed_cost import Cost, Threads

RECIPE = Path(__file__).parent.parent / "recipe" / "cost.toml"


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sentbed", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    sentbed.run(sentbed.load_recipe(RECIPE, ["run.cache=false"]), directory)
    return directory


def test_an_hour_has_its_price() -> None:
    assert Cost(1.2).of(3600) == 1.2
    assert Cost(3.0).of(60) == pytest.approx(0.05)


def test_the_record_and_the_pages_have_the_section(run: Path) -> None:
    report = json.loads((run / "report.json").read_text())
    section = report["sections"]["cost"]
    ((seconds, per_hour, price),) = section["rows"]
    assert (section["columns"], per_hour) == (["seconds", "EUR an hour", "EUR"], 1.2)
    assert price == pytest.approx(1.2 * report["seconds"] / 3600, abs=1e-5)
    assert seconds == pytest.approx(report["seconds"], abs=0.1)
    for page in ("report.html", "report.md"):
        assert "EUR an hour" in (run / page).read_text()


def test_the_command_adds_up(run: Path) -> None:
    done = call("cost", run, run)
    assert (done.returncode, done.stderr) == (0, "")
    *each, together = [line.rpartition(": ")[2].split() for line in done.stdout.splitlines()]
    assert float(together[0]) == pytest.approx(sum(float(price) for price, _ in each), abs=2e-6)
    assert "cost " in call("--help").stdout


def test_a_run_without_cost_is_a_sentence(tmp_path: Path) -> None:
    done = call("cost", tmp_path)
    assert done.returncode == 1
    assert "name the directory of a run" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("setting", "message"),
    [("cost.per_hour=-1", "must be > 0"), ("cost.per_huor=1", "Did you mean `per_hour`?")],
)
def test_the_table_is_checked_like_ours(setting: str, message: str) -> None:
    with pytest.raises(sentbed.RecipeError, match="cost.per_") as caught:
        sentbed.load_recipe(RECIPE, [setting])
    assert message in str(caught.value)


def work(threads: int | None) -> object:
    return lambda task: task * 2


def test_threads_do_every_task_once() -> None:
    executor = Threads(3)
    done = dict(executor.run(work, range(7)))
    assert done == {task: 2 * task for task in range(7)}
    assert list(executor.run(work, [])) == []


def test_a_corpus_is_encoded_in_threads(run: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("one sentence\nanother\n" * 5)
    arguments = ("--input", tmp_path / "texts.txt", "--output", tmp_path / "out", "--shard-rows", "4")
    done = call("encode", run / "encoder", *arguments, "--executor", "threads", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "10 x 128 in 3 shards" in done.stderr
