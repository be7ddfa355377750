from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from typing import Any

import attrs
import pytest
from sentbed import RunError, hookimpl, load_recipe, resume, run
from sentbed._recipe.recipe import Recipe
from sentbed._registry.registry import Plugins, load_plugins
from sentbed.protocols import Run
from sentbed_report.machine_counters import ProcessorEnergy
from sentbed_report.run_cost import RecordedCost, RunCost, recorded_cost
from sentbed_report.run_cost_recorder import RunCostRecorder
from toy_plugin import RECIPE, Pull, quicken

JOULES = 3
"""Energy of a machine on which each step takes as much, in J."""


@pytest.fixture
def plugins(toy_points: list[EntryPoint]) -> Plugins:
    """The toy plugin, core's trackers and this distribution."""
    own = distribution("sentbed-report").entry_points.select(group="sentbed")
    return load_plugins(dict.fromkeys([*toy_points, *own]))


@pytest.fixture
def load(
    put: Callable[[str, str], Path], plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Recipe]:
    quicken(monkeypatch)
    return lambda text: load_recipe(put("recipe.toml", text), plugins=plugins)


def cost_of(directory: Path) -> RecordedCost:
    found = recorded_cost(json.loads((directory / "report.json").read_text()))
    assert found is not None
    return found


def texts_of(recipe: Recipe) -> int:
    """Tokens of all rows in all epochs: one for the beginning, and one a character."""
    (stage,) = recipe.stage
    data = stage.data.open()
    lengths = [min(16, 1 + len(text)) for text in data.texts(["anchor", "positive"])]
    return (stage.epochs or 0) * sum(lengths)


def test_a_run_says_what_it_took(load: Callable[[str], Recipe], plugins: Plugins, tmp_path: Path) -> None:
    recipe = load(RECIPE)
    run(recipe, tmp_path / "out", plugins)
    found = cost_of(tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert found.shared == {}
    assert 0 < (found.own.seconds or 0) <= report["seconds"]
    assert (found.own.processor_seconds or 0) > 0
    assert found.own.tokens == texts_of(recipe) > 0
    # The toy's engine counts no parameters and has no device.
    assert found.own.parameters is found.own.device_seconds is found.own.device_memory is None


class Machine:
    """A machine whose processor needs `JOULES` a step; Ctrl-C at the `stop`-th one."""

    required = True

    def __init__(self, root: Path, stop: int = 0) -> None:
        self.root, self.stop, self.steps = root, stop, 0
        domain = root / "intel-rapl:0"
        domain.mkdir(parents=True, exist_ok=True)
        (domain / "name").write_text("package-0")
        (domain / "max_energy_range_uj").write_text(str(10**9))
        self.write()

    def write(self) -> None:
        # No time in use is told between two looks, so that all energy is the run's.
        (self.root / "stat").write_text("cpu  0 0 0 0 0 0 0 0 0 0\n")
        (self.root / "intel-rapl:0" / "energy_uj").write_text(str(10**6 * JOULES * self.steps))

    @hookimpl(tryfirst=True)
    def step_finished(self) -> None:
        self.steps += 1
        self.write()
        if self.steps == self.stop:
            raise KeyboardInterrupt


def recorder_on(plugins: Plugins, machine: Machine) -> None:
    """Put a recorder that reads this machine's counters in the place of ours."""
    plugins.manager.unregister(name="sentbed-report:run-cost")
    plugins.manager.register(machine)
    recorder = RunCostRecorder(ProcessorEnergy(machine.root, machine.root / "stat"))
    plugins.manager.register(recorder, "sentbed-report:run-cost")


def test_a_resumed_run_adds_up_its_parts_and_not_what_is_done_again(
    load: Callable[[str], Recipe], plugins: Plugins, tmp_path: Path
) -> None:
    recipe = load(f"{RECIPE}\n[checkpoint]\nevery = 2\n")
    machine = Machine(tmp_path / "powercap", stop=3)
    recorder_on(plugins, machine)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "out", plugins)
    stopped = cost_of(tmp_path / "out").own
    assert stopped.energy == pytest.approx(3 * JOULES)
    resume(tmp_path / "out", plugins=plugins)
    whole = cost_of(tmp_path / "out").own
    # Six steps, of which the third one was taken twice.
    assert machine.steps == 7
    assert whole.energy == pytest.approx(6 * JOULES)
    assert whole.tokens == texts_of(recipe) > (stopped.tokens or 0) > 0
    assert (whole.seconds or 0) > 0


def test_a_run_that_failed_says_what_it_took_until_then(
    load: Callable[[str], Recipe], plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RunError("out of paper")

    monkeypatch.setattr(Pull, "build", broken)
    with pytest.raises(RunError, match="paper"):
        run(load(RECIPE), tmp_path / "out", plugins)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["status"] == "failed"
    found = cost_of(tmp_path / "out").own
    assert found.tokens == 0
    assert (found.seconds or 0) > 0


class Doomed:
    """A plugin without which no run can be, and which fails before the others hear of the run."""

    required = True

    @hookimpl(tryfirst=True)
    def run_started(self) -> None:
        raise RunError("no room")


@pytest.mark.parametrize("after", [0, 1], ids=["the first", "after another"])
def test_a_run_that_fails_before_it_begins_has_no_cost(
    load: Callable[[str], Recipe], plugins: Plugins, tmp_path: Path, after: int
) -> None:
    for number in range(after):
        run(load(RECIPE), tmp_path / f"before-{number}", plugins)
    plugins.manager.register(Doomed())
    with pytest.raises(RunError, match="no room"):
        run(load(RECIPE), tmp_path / "out", plugins)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["status"] == "failed"
    assert recorded_cost(report) is None


def test_what_a_run_of_an_earlier_version_took_before_it_was_resumed_is_unknown(
    load: Callable[[str], Recipe], plugins: Plugins, tmp_path: Path
) -> None:
    recipe = load(f"{RECIPE}\n[checkpoint]\nevery = 2\n")
    machine = Machine(tmp_path / "powercap", stop=3)
    plugins.manager.unregister(name="sentbed-report:run-cost")
    plugins.manager.register(machine)
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "out", plugins)
    plugins.manager.register(RunCostRecorder(ProcessorEnergy(machine.root, machine.root / "stat")), "cost")
    resume(tmp_path / "out", plugins=plugins)
    assert cost_of(tmp_path / "out").own == RunCost()


def test_a_run_that_is_resumed_before_its_first_checkpoint_has_nothing_before(
    load: Callable[[str], Recipe], plugins: Plugins, tmp_path: Path
) -> None:
    recorder_on(plugins, Machine(tmp_path / "powercap", stop=3))
    with pytest.raises(KeyboardInterrupt):
        run(load(RECIPE), tmp_path / "out", plugins)
    resume(tmp_path / "out", plugins=plugins)
    assert cost_of(tmp_path / "out").own.energy == pytest.approx(6 * JOULES)


def test_a_run_that_branches_from_one_of_an_earlier_version_knows_its_own_cost_alone(tmp_path: Path) -> None:
    recorder = RunCostRecorder(ProcessorEnergy(tmp_path))
    facts = {"went_on_from": "pairs-1a", "trained_tokens": 500, "resumed": [{"stage": 1, "step": 0}]}
    branched = Run("r", tmp_path, None, facts)
    recorder.run_resumed(branched, {"history": {}})
    found = recorded_cost({"sections": {"run-cost": attrs.asdict(recorder.report_sections(branched)[0])}})
    assert found is not None
    assert found.own.seconds is not None
    assert found.own.tokens is None
    assert found.shared == {"pairs-1a": RunCost()}
    assert found.alone.seconds is None
    # From a checkpoint of its own, its cost before is unknown, too.
    places = [*facts["resumed"], {"stage": 1, "step": 40}]  # type: ignore[misc]
    further = Run("r", tmp_path, None, {**facts, "resumed": places})
    recorder.run_resumed(further, {"history": {}})
    _, state = recorder.tracker_state(further) or ("", {})
    assert RunCost.of(state["own"]) == RunCost()
    assert state["shared"] == {"pairs-1a": attrs.asdict(RunCost())}


def test_a_second_run_in_the_process_begins_at_zero(
    load: Callable[[str], Recipe], plugins: Plugins, tmp_path: Path
) -> None:
    recorder_on(plugins, Machine(tmp_path / "powercap"))
    for name in ("first", "second"):
        run(load(RECIPE), tmp_path / name, plugins)
    first, second = (cost_of(tmp_path / name).own for name in ("first", "second"))
    assert first.energy == second.energy == pytest.approx(6 * JOULES)
    assert first.tokens == second.tokens


@pytest.mark.parametrize(
    ("engine", "seconds"),
    [
        ({"device": "abacus"}, None),
        ({"platform": "cpu", "devices": 8}, None),
        ({"platform": "tpu", "devices": 4}, 40.0),
        ({"memory_gib": 80.0}, 10.0),
        ({"memory_gib": 80.0, "processes": 2}, 20.0),
    ],
)
def test_device_seconds_count_every_device_beside_the_processor(
    engine: dict[str, Any], seconds: float | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = iter([100.0, 110.0])
    recorder = RunCostRecorder(ProcessorEnergy(tmp_path))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    recorder.run_started()
    facts = {"engine": engine, "counters": {"device_memory_gib": 2.0} if seconds else {}}
    _, state = recorder.tracker_state(Run("r", tmp_path, None, facts)) or ("", {})
    own = RunCost.of(state["own"])
    assert (own.device_seconds, own.device_memory) == (seconds, 2048.0 if seconds else None)


@pytest.mark.parametrize("own", ["..", None, {"memory": "much"}, {"seconds": [1.0]}])
def test_a_damaged_cost_in_a_state_is_an_error_before_the_run_goes_on(own: object, tmp_path: Path) -> None:
    run = Run("r", tmp_path, None, {})
    state = {"own": own, "shared": {}, "source": None}
    with pytest.raises(RunError, match=r"the cost in the state of the run is damaged: .*; start a new run"):
        RunCostRecorder(ProcessorEnergy(tmp_path)).run_resumed(run, {"run-cost": state})
