from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from sentbed import __version__
from sentbed._cli.main import main
from sentbed._registry.culprit import blame
from sentbed._registry.registry import load_plugins
from toy_plugin import RECIPE

SOURCE = '''
from typing import ClassVar

import attrs
import sentbed
from sentbed.protocols import Evaluation, Score
from toy_plugin import {base}


@attrs.frozen
class Faulty({base}):
    """A component with a fault."""

    name: ClassVar[str] = "faulty"

    {body}


@sentbed.hookimpl
def {hook}():
    return [Faulty]
'''

RAISE = 'raise ValueError("broken")'
ADVICE = "; test it with `sentbed_testing`"
USE = {
    "backbones": ("backbone", "Characters", "encoder.backbone.use"),
    "poolers": ("pooler", "Average", "encoder.pooler.use"),
    "losses": ("loss", "Pull", "stage.0.loss.use"),
    "data_sources": ("data", "Words", "stage.0.data.use"),
    "optimizers": ("optimizer", "Sgd", "stage.0.optimizer.use"),
    "schedules": ("schedule", "Falling", "stage.0.schedule.use"),
    "evaluators": ("evaluator", "Gap", "evaluate.0.use"),
    "runtimes": ("runtime", "Toy", "runtime.use"),
}
"""Hook -> kind, class to change, and where the recipe names it."""


@pytest.fixture
def run(installed_toy, distribute, put, tmp_path):
    """Return a function that runs a recipe with a faulty component: exit code, last line, source."""

    def run_with(hook, body):
        _, base, path = USE[hook]
        source = SOURCE.format(base=base, body=body, hook=hook)
        distribute("faulty-parts", {"faulty_parts": source})
        arguments = ["run", str(put("r.toml", RECIPE)), "--out", str(tmp_path / "run")]
        result = CliRunner().invoke(main, [*arguments, "--set", f"{path}=faulty"])
        assert isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.output
        return result.exit_code, result.output.splitlines()[-1], source

    return run_with


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("hook", "body"),
    [
        ("backbones", f"def build(self, context): {RAISE}"),
        ("poolers", f"def build(self, width): {RAISE}"),
        ("losses", f"def build(self, width): {RAISE}"),
        ("losses", f"def misfits(self, place): {RAISE}"),
        ("losses", f"@property\n    def needs(self): {RAISE}"),
        ("data_sources", f"def open(self): {RAISE}"),
        ("data_sources", f"@property\n    def columns(self): {RAISE}"),
        ("optimizers", f"def build(self, *_): {RAISE}"),
        ("schedules", f"def factor(self, step, steps): {RAISE}"),
        ("evaluators", f"def prepare(self): {RAISE}"),
        ("evaluators", f"def _score(self, vectors): {RAISE}"),
        ("runtimes", f"def build(self): {RAISE}"),
    ],
)
def test_what_a_component_raises_is_told_with_its_name_and_line(
    hook, body, run, tmp_path
):
    code, message, source = run(hook, body)
    line = next(
        number
        for number, text in enumerate(source.splitlines(), start=1)
        if RAISE in text
    )
    place = f"{tmp_path / 'site' / 'faulty_parts.py'}:{line}"
    who = f"the {USE[hook][0]} `faulty` of `faulty-parts` 1.0"
    rest = ", or tell its authors (`--traceback` shows the rest)"
    assert (code, message) == (
        1,
        f"error: {who} raised ValueError: broken @ {place}{ADVICE}{rest}",
    )


@pytest.fixture
def check(installed_toy, distribute, put):
    """Check a recipe with a faulty loss, and then a good one: the lines about the first."""

    def check_with(body, text):
        source = SOURCE.format(base="Pull", body=body, hook="losses")
        distribute("faulty-parts", {"faulty_parts": source})
        bad, good = put("bad.toml", text), put("good.toml", RECIPE)
        result = CliRunner().invoke(main, ["check", str(bad), str(good)])
        *lines, last = result.output.splitlines()
        assert (result.exit_code, last) == (2, f"{good}: no problems")
        return lines

    return check_with


FAULTY = RECIPE.replace('loss = { use = "pull" }', 'loss = { use = "faulty" }')
TWICE_FAULTY = FAULTY.replace("batch_size = 4", "batch_size = 0")
FIELD = "odd: {} = attrs.field(default=None{})\n"


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        (
            FIELD.format("complex", ""),
            r"found 3, which cannot become the type `complex` of the field `odd`",
        ),
        (
            FIELD.format("list[int]", ""),
            r"found 3, which cannot become the type `list\[int\]`",
        ),
        (
            FIELD.format("set[str]", ""),
            r"found 3, which cannot become the type `set\[str\]`",
        ),
        (
            FIELD.format("'int +'", ""),
            r"the type of a field of `Faulty` \(faulty_parts\) cannot be found",
        ),
        (
            FIELD.format("int", ", validator=lambda *_: 1 / 0"),
            r"making `Faulty` of `faulty-parts` 1\.0 raised ZeroDivisionError: .* @ .*parts\.py:16; ",
        ),
        (
            FIELD.format("int", "")
            + "    def __attrs_post_init__(self): raise KeyError(self.odd)",
            r"making `Faulty` of `faulty-parts` 1\.0 raised KeyError: 3 @ .*faulty_parts\.py:17; test it",
        ),
    ],
)
def test_a_field_that_no_recipe_can_give_is_one_problem_among_the_others(
    field, wrong, check
):
    problems = check(field, TWICE_FAULTY.replace('"faulty"', '"faulty", odd = 3'))
    assert len(problems) == 2, problems
    assert any(
        re.match(wrong, problem) and ":18 stage.pull.loss" in problem
        for problem in problems
    ), problems


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (RAISE, r"raised ValueError: broken @ .*faulty_parts\.py:16"),
    ],
)
def test_a_fault_of_check_is_a_problem_of_the_recipe_and_hides_no_other(
    body, wrong, check, tmp_path
):
    problems = check(f"def check(self): {body}", TWICE_FAULTY)
    assert len(problems) == 2
    place = re.escape(str(tmp_path / "bad.toml"))
    pattern = (
        r"`check` of the loss `faulty` of `faulty-parts` 1\.0 "
        rf"{wrong}; test it with .* @ {place}:18 stage\.pull\.loss"
    )
    assert any(re.fullmatch(pattern, problem) for problem in problems), problems
    assert any("batch_size" in problem for problem in problems)


def test_a_component_that_raises_in_check_does_not_hide_the_next_recipe(
    check, tmp_path
):
    (problem,) = check(f"def misfits(self, place): {RAISE}", FAULTY)
    assert problem.startswith(
        "the loss `faulty` of `faulty-parts` 1.0 raised ValueError: broken @ "
    )
    assert problem.endswith(f" @ {tmp_path / 'bad.toml'}")


def test_a_traceback_is_shown_when_asked_for(run, tmp_path):
    run("runtimes", f"def build(self): {RAISE}")
    arguments = [
        "--traceback",
        "run",
        str(tmp_path / "r.toml"),
        "--set",
        "runtime.use=faulty",
    ]
    result = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "again")])
    assert isinstance(result.exception, ValueError)


def test_an_error_of_a_command_is_not_blamed_on_the_only_component_beside_it():
    component_docs = pytest.importorskip("sentbed_workbench.component_docs")
    with pytest.raises(AttributeError) as caught:
        component_docs.describe(None)
    message = blame(caught.value)
    assert message.startswith("`sentbed-workbench` ")
    assert "the runtime" not in message


def test_an_error_of_nobodys_plugin_is_our_own():
    try:
        int("x")
    except ValueError as error:
        message = blame(error, load_plugins([]))
    assert message.startswith(
        f"sentbed {__version__} raised ValueError: invalid literal for int() with base 10: 'x' @ "
    )
    assert message.endswith("; tell its authors what `--traceback` shows")
