"""The contract of a plugin as a whole: each planted fault fails its test, and ours keep it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed.errors import PluginError
from sentbed_testing import PluginContract, contracts_of

pytestmark = pytest.mark.slow

SCHEDULE = '''
"""A schedule."""

from typing import ClassVar

import attrs
import sentbed
from sentbed.protocols import Schedule


@attrs.frozen
class Steady(Schedule):
    """The same rate at every step."""

    name: ClassVar[str] = "steady"

    rate: float = 1.0
    """The multiplier."""

    def check(self):
        """Yield what is wrong."""
        if self.rate > 2:
            yield "the rate is above 2; give another"

    def factor(self, step: int, total_steps: int) -> float:
        """Return it."""
        return self.rate


@sentbed.hookimpl
def schedules():
    return [Steady]
'''
COMMAND = '''
import click
import sentbed


@click.command()
def price():
    """Say what a run has cost."""


@sentbed.hookimpl
def commands():
    return {"price": "tried:price"}
'''
FAULTS = {
    "import": (SCHEDULE + "import no_such_module\n", "test_loads"),
    "misspelt hook": (SCHEDULE.replace("def schedules", "def schedule"), "test_loads"),
    "wrong return": (SCHEDULE.replace("[Steady]", "Steady"), "test_loads"),
    "nothing": ('"""Nothing."""\n', "test_loads"),
    "unmarked": (SCHEDULE + "def losses():\n    return []\n", "test_hooks_are_marked"),
    "heavy": (SCHEDULE + "import numpy\n", "test_import_is_light"),
    "prints": (SCHEDULE + "print('hello')\n", "test_import_is_light"),
    "thawed": (SCHEDULE.replace("frozen", "define"), "test_loads"),
    "missing": (COMMAND.replace("tried:", "tried:x"), "test_loads"),
    "silent": (COMMAND.replace('"""Say', "a = '''").replace('cost."""', "'''"), "test_help_of_commands"),
}  # fmt: skip
"""Source of a plugin -> the test that finds its fault."""
TESTS = [name for name in vars(PluginContract) if name.startswith("test_")]


class Tried(PluginContract):
    plugin = "tried"


@pytest.mark.parametrize("source", [SCHEDULE, COMMAND], ids=["component", "command"])
@pytest.mark.parametrize("test", TESTS)
def test_a_plugin_without_a_fault_passes(source, test, distribute):
    distribute("tried", {"tried": source})
    getattr(Tried(), test)()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_plugin_is_found(fault, distribute):
    source, test = FAULTS[fault]
    distribute("tried", {"tried": source})
    with pytest.raises((AssertionError, PluginError)):
        getattr(Tried(), test)()


@pytest.mark.parametrize(
    ("source", "exit_code", "line"),
    [
        (SCHEDULE, 0, "passed"),
        (SCHEDULE.replace("rate: float = 1.0", "rate: float = 1.5"), 1, "TestScheduleSteady::test_factors[1]"),
        (SCHEDULE.replace("rate: float = 1.0", "rate: float = 3.0"), 0, "the rate is above 2; give another"),
        (SCHEDULE.replace("float = 1.0", "float"), 0, "`rate` has no default: test it in a class of its own"),
    ],
)  # fmt: skip
def test_check_plugin_runs_pytest_on_all_that_is_offered(
    source, exit_code, line, distribute, capfd
):
    distribute("tried", {"tried": source})
    result = CliRunner().invoke(main, ["check-plugin", "tried"])
    assert result.exit_code == exit_code
    assert line in capfd.readouterr().out


def test_a_plugin_that_is_not_installed_is_named():
    result = CliRunner().invoke(main, ["check-plugin", "sentbed-tasting"])
    assert result.exit_code == 1
    assert "no installed plugin is called `sentbed-tasting`" in result.stderr


@pytest.mark.parametrize("name", ["trackers", "jobs", "workbench", "testing"])
@pytest.mark.parametrize("test", TESTS)
def test_ours_keep_the_contract(name, test):
    contract = contracts_of(f"sentbed-{name}")["TestPlugin"]
    getattr(contract(), test)()
