"""The rules of a plugin as a whole: each can fail, and all of ours keep them."""

from __future__ import annotations

import re
import sys

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed_testing import ConformanceError, check_plugin, plugin_rules

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
    "private": (
        GOOD + "\n\ndef late():\n    from sentbed._run import runner\n",
        "private: it imports `sentbed._run",
    ),
    "component": (
        GOOD.replace("return self.rate", "return 2.0"),
        "schedule/steady: factor: step 0 of 1 has the mult",
    ),
    "own check": (
        GOOD.replace("rate: float = 1.0", "rate: float = 3.0"),
        "schedule/steady: tried: none of the 1 rules",
    ),
}


TOOL = '''
"""A command, a table and a report section."""

from typing import ClassVar

import attrs
import sentbed
from sentbed.protocols import Lazy, RecipeTable, ReportSection, TableTraits


@attrs.frozen
class Price(RecipeTable):
    """`[price]`: what an hour costs."""

    traits: ClassVar[TableTraits] = TableTraits(decides=False)

    per_hour: float
    """Price of an hour."""

    def problems(self, recipe, plugins, check_files):
        """Yield what is wrong with the price."""
        if self.per_hour < 0:
            yield ("per_hour",), "the price is below 0; give another"


@sentbed.hookimpl
def recipe_tables():
    return {"price": Price}


@sentbed.hookimpl
def commands():
    return {"price": Lazy("tried_command:price", "Say what a run has cost.")}


@sentbed.hookimpl
def report_sections(run, data):
    table = run.recipe.table(Price)
    if table is None:
        return ()
    return [ReportSection("price", "Price", ("task",), ((len(data.scores),),))]
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
    "raising table": (
        TOOL.replace("self.per_hour < 0", "recipe.stage[0]"),
        COMMAND,
        "tables: `problems` of `[price]` raises IndexError: tuple index out of range; yield",
    ),
    "text of a table": (
        TOOL.replace("self.per_hour < 0", "True").replace('("per_hour",), "', '"'),
        COMMAND,
        "tables: `problems` of `[price]` yields 'the price is below 0; give another'; yield",
    ),
    "raising section": (
        TOOL.replace("len(data.scores)", "data.scores[0].value"),
        COMMAND,
        "sections: `report_sections` raises IndexError: tuple index out of range for a run that failed; a",
    ),
    "uneven section": (
        TOOL.replace('("task",)', '("task", "price")'),
        COMMAND,
        "sections: a row of the report section `price` has 1 values for 2 columns; give",
    ),
}


@pytest.mark.parametrize("fault", FAULTS_OF_TOOLS)
def test_a_fault_of_a_tool_is_found(fault, distribute):
    source, command, message = FAULTS_OF_TOOLS[fault]
    # What a `Lazy` names is imported once in a process.
    module = "tried_" + fault.replace(" ", "_")
    source = source.replace("tried_command", module)
    distribute("tried", {"tried": source, module: command})
    examples = {"table/price": {"per_hour": 2.0}}
    if not message:
        report = check_plugin("tried:tried", examples=examples)
        assert {"commands", "tables", "sections"} < set(report.passed)
        message = "give keys as the `example` of `table/price`"
        examples = {}
    with pytest.raises(ConformanceError, match=re.escape(message)):
        check_plugin("tried:tried", examples=examples)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_plugin_is_found(fault, distribute, monkeypatch):
    # A slow import is measured once: it is as slow each time.
    monkeypatch.setattr("sentbed_testing.plugin_checks.TRIES", 1)
    source, message = FAULTS[fault]
    distribute("tried", {"tried": source})
    with pytest.raises(ConformanceError, match=re.escape(message)):
        check_plugin("tried")


def test_the_faults_of_all_tables_are_listed(distribute):
    tables = '{"price": Price}'
    assert tables in TOOL
    source = TOOL.replace(tables, '{"price": Price, "cost": Price}')
    distribute("tried", {"tried": source, "tried_command": COMMAND})
    with pytest.raises(ConformanceError) as broken:
        check_plugin("tried:tried")
    faults = {failure.what for failure in broken.value.failures}
    missing = "with no keys: the required key `per_hour` is missing"
    assert faults == {f"`[price]` {missing}", f"`[cost]` {missing}"}


def test_a_plugin_without_a_fault_passes_with_all_that_it_offers(
    distribute,
):
    distribute("tried", {"tried": GOOD})
    report = check_plugin("tried", examples={"schedule/steady": {"rate": 0.5}})
    assert report.passed == (
        "loads",
        "hooks",
        "imports",
        "private",
        "commands",
        "tables",
        "sections",
    )
    assert {"factor", "tried"} < set(report.components["schedule/steady"].passed)
    assert "schedule/steady: passed: frozen, " in str(report)
    with pytest.raises(
        ConformanceError,
        match="`schedule/stead`, for which there is an example or a reason,",
    ):
        check_plugin("tried", skip={"schedule/stead": {"factor": "why"}})


def test_the_rules_of_a_plugin_are_those_of_its_report(distribute):
    distribute("tried", {"tried": GOOD})
    report = check_plugin("tried")
    rules = plugin_rules("tried", must_run=True)
    expected = [f"plugin/tried/{rule}" for rule in report.passed]
    for rule in report.components["schedule/steady"].passed:
        expected.append(f"schedule/steady/{rule}")
    assert list(rules) == expected
    rules["schedule/steady/factor"](example={"rate": 0.5})
    rules["plugin/tried/hooks"]()


def test_a_plugin_that_is_not_installed_is_said():
    with pytest.raises(
        ConformanceError,
        match=r"installed: no installed plugin is called `sentbed-tasting`; .*",
    ):
        check_plugin("sentbed-tasting")


def test_the_command_takes_examples_and_reasons(distribute):
    distribute("tried", {"tried": GOOD.replace("rate: float = 1.0", "rate: float")})
    call = CliRunner().invoke
    failed = call(main, ["check-plugin", "tried"])
    assert failed.exit_code == 1
    assert (
        "schedule/steady: defaults: fields without a default: `rate`; give them in an `example`"
        in failed.stderr
    )
    form = "sentbed check-plugin tried --example schedule/steady '{ FIELD = VALUE }'"
    assert failed.stderr.endswith(
        f"on the command line, fields are given with `{form}`\n"
    )
    done = call(
        main,
        ["check-plugin", "tried", "--example", "schedule/steady", "{ rate = 0.5 }"],
    )
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "tried: passed: loads, hooks, imports, private, commands, tables, sections\n"
        "schedule/steady: passed: "
    )
    skipped = [
        "--example",
        "schedule/steady",
        "{ rate = 2.0 }",
        "--skip",
        "schedule/steady",
        "factor",
        "it rises",
    ]
    done = call(main, ["check-plugin", "tried", *skipped])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "schedule/steady: not run: factor: it rises\n" in done.stdout
    assert (
        "is no table"
        in call(
            main, ["check-plugin", "tried", "--example", "schedule/steady", "3"]
        ).stderr
    )
    assert (
        "is no TOML"
        in call(
            main, ["check-plugin", "tried", "--example", "schedule/steady", "{"]
        ).stderr
    )


def test_the_plugin_of_the_kit_loads_little():
    import subprocess

    code = "import sentbed_testing.plugin, sys; print([n for n in sys.modules if n.startswith('sentbed_t')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "['sentbed_testing', 'sentbed_testing.plugin']\n"


def test_a_private_import_is_named_with_its_line(distribute):
    distribute("tried", {"tried": GOOD + "\nimport sentbed._seeds\n"})
    line = len(GOOD.splitlines()) + 2
    with pytest.raises(
        ConformanceError,
        match=rf"`sentbed\._seeds`, which belongs to core alone, at .*tried\.py:{line};",
    ):
        check_plugin("tried")


@pytest.mark.parametrize("name", ["trackers", "jobs", "workbench", "testing"])
@pytest.mark.sweep(1)
def test_ours_keep_the_rules(name):
    assert check_plugin(f"sentbed-{name}").passed[-1] == "sections"


def test_a_plugin_in_a_namespace_package_is_checked(distribute, tmp_path):
    distribute("tried", {"tried": GOOD})
    site = tmp_path / "site"
    (site / "tried_namespace").mkdir()
    source = GOOD.replace('"steady"', '"even"')
    (site / "tried_namespace" / "even.py").write_text(source)
    points = "[sentbed]\neven = tried_namespace.even\n"
    (site / "tried-1.0.dist-info" / "entry_points.txt").write_text(points)
    report = check_plugin("tried", examples={"schedule/even": {"rate": 0.5}})
    assert {"private", "hooks"} <= set(report.passed)
