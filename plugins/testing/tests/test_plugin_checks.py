"""The rules of a plugin as a whole: each can fail, and all of ours keep them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed_testing import ConformanceError, NotRunError, plugin_rules

pytestmark = pytest.mark.slow

GOOD = '''
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
        if not 0 <= self.rate <= 1:
            yield "the rate is not in [0, 1]; give another"

    def factor(self, step: int, total_steps: int) -> float:
        """Return it."""
        return self.rate


@sentbed.hookimpl
def schedules():
    return [Steady]
'''

FAULTS = {
    "broken": (
        GOOD.replace("import attrs", "import attrs\nimport no_such_module", 1),
        "loads: `tried:tried` is brok",
    ),
    "ends": (
        GOOD.replace(
            "import attrs",
            "import attrs, sys\nif 'pytest' not in sys.modules: raise SystemError",
            1,
        ),
        "importing `tried` ends in `SystemError`; `python -c 'import tried'` shows where",
    ),
    "misspelt hook": (
        GOOD.replace("def schedules", "def schedule"),
        "there is no hook `schedule`. Did you mean",
    ),
    "wrong return": (
        GOOD.replace("return [Steady]", "return Steady"),
        "loads: `tried:tried` is broken",
    ),
    "unmarked": (
        GOOD + "\n\ndef losses():\n    return []\n",
        "hooks: `losses` has the name of a hook, but is not marked as its implementation; dec",
    ),
    "nothing": (
        '"""Nothing."""\n',
        "hooks: it implements no hook; mark a function",
    ),
    "heavy": (
        GOOD.replace("import attrs", "import attrs\nimport numpy", 1),
        "imports: the library `numpy` is loaded",
    ),
    "component": (
        GOOD.replace("return self.rate", "return 2.0"),
        "factor: step 0 of 1 has the mult",
    ),
    "own check": (
        GOOD.replace("rate: float = 1.0", "rate: float = 3.0"),
        "tried: none of the 1 rules",
    ),
}


TOOL = '''
"""A command."""

import sentbed


@sentbed.hookimpl
def commands():
    return {"price": "tried_command:price"}
'''
COMMAND = '''
import click


@click.command()
def price():
    """Say what a run has cost."""
'''
FAULTS_OF_TOOLS = {
    "none": (TOOL, COMMAND, ""),
    "silent command": (
        TOOL,
        COMMAND.replace('"""Say what a run has cost."""', "pass"),
        "commands: `sentbed price --help` does not say what the command does; write",
    ),
    "raising command": (
        TOOL,
        COMMAND.replace(
            "()\ndef", "(cls=type('C', (click.Command,), {'get_help': 3}))\ndef"
        ),
        "commands: `sentbed price --help` ends with 1: TypeError(",
    ),
}


def faults_of(name, **options):
    """Run the rules of a plugin; return the message of each that is broken."""
    messages = {}
    for rule_id, rule in plugin_rules(name, **options).items():
        try:
            rule()
        except NotRunError:
            continue
        except ConformanceError as error:
            messages[rule_id] = str(error)
    return messages


@pytest.mark.parametrize("fault", FAULTS_OF_TOOLS)
def test_a_fault_of_a_tool_is_found(fault, distribute):
    source, command, message = FAULTS_OF_TOOLS[fault]
    # What a `Lazy` names is imported once in a process.
    module = "tried_" + fault.replace(" ", "_")
    source = source.replace("tried_command", module)
    distribute("tried", {"tried": source, module: command})
    faults = faults_of("tried:tried")
    assert bool(faults) == bool(message)
    assert message in "".join(faults.values())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_plugin_is_found(fault, distribute):
    source, message = FAULTS[fault]
    distribute("tried", {"tried": source})
    assert message in "".join(faults_of("tried").values())


def test_the_rules_of_a_plugin_are_its_own_and_those_of_its_components(distribute):
    distribute("tried", {"tried": GOOD})
    examples = {"schedule/steady": {"rate": 0.5}}
    rules = plugin_rules("tried", examples=examples, must_run=True)
    own = ["loads", "hooks", "imports", "commands"]
    assert list(rules)[:4] == [f"plugin/tried/{rule}" for rule in own]
    assert {"schedule/steady/factor", "schedule/steady/tried"} < set(rules)
    assert faults_of("tried", examples=examples) == {}
    with pytest.raises(
        ConformanceError,
        match="`schedule/stead`, for which there is an example or a reason,",
    ):
        plugin_rules("tried", skip={"schedule/stead": {"factor": "why"}})


def test_a_plugin_that_is_not_installed_is_said():
    with pytest.raises(
        ConformanceError,
        match=r"installed: no installed plugin is called `sentbed-tasting`; .*",
    ):
        plugin_rules("sentbed-tasting")


def test_the_command_prints_each_rule(distribute):
    distribute("tried", {"tried": GOOD})
    done = CliRunner().invoke(main, ["check-plugin", "tried"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "plugin/tried/loads: passed\n" in done.stdout
    distribute("wrong", {"wrong": GOOD.replace("float = 1.0", "float")})
    broken = CliRunner().invoke(main, ["check-plugin", "wrong"])
    assert broken.exit_code == 1
    assert "fields without a default: `rate`" in broken.stderr


@pytest.mark.parametrize("name", ["trackers", "jobs", "workbench", "testing"])
@pytest.mark.sweep(1)
def test_ours_keep_the_rules(name):
    assert faults_of(f"sentbed-{name}") == {}
