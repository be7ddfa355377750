"""An error of a component's code is told with its name, its distribution and its line in the recipe."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from toy_plugin import RECIPE

SOURCE = '''
from typing import ClassVar

import attrs
import sentbed
from sentbed.protocols import Evaluation, Score
from toy_plugin import {base}, Quoted


@attrs.frozen
class Plain(Quoted):
    """A component without a fault, which the same recipe uses."""

    name: ClassVar[str] = "plain"


@sentbed.hookimpl
def prompts():
    return [Plain]


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
POOL = f"def pool(states):\n            {RAISE}\n        return pool"
KINDS = {
    "backbones": ("backbone", "Characters", "encoder.backbone"),
    "poolers": ("pooler", "Average", "encoder.pooler"),
    "losses": ("loss", "Pull", "stage.pull.loss"),
    "data_sources": ("data source", "Words", "stage.pull.data"),
    "optimizers": ("optimizer", "Sgd", "stage.pull.optimizer"),
    "schedules": ("schedule", "Falling", "stage.pull.schedule"),
    "evaluators": ("evaluator", "Gap", "evaluate.0"),
    "runtimes": ("runtime", "Toy", "runtime"),
}
"""Hook -> kind, class to change, and the place in the recipe."""


@pytest.fixture
def call(installed_toy, distribute, put, tmp_path):
    """Return a function that calls `sentbed` for a recipe with a faulty component: its result."""

    def call_with(hook, body, *arguments):
        _, base, path = KINDS[hook]
        source = SOURCE.format(base=base, body=body, hook=hook)
        distribute("faulty-parts", {"faulty_parts": source})
        recipe = put("r.toml", RECIPE)
        path = path.replace("pull", "0")
        command = [*arguments, str(recipe), "--set", f"{path}.use=faulty"]
        command += ["--set", "encoder.prompt.use=plain"]
        if arguments[-1] == "run":
            command += ["--out", str(tmp_path / "run")]
        return CliRunner().invoke(main, command)

    return call_with


@pytest.mark.sweep(6)
@pytest.mark.parametrize(
    ("hook", "body"),
    [
        ("backbones", f"def build(self, context): {RAISE}"),
        ("poolers", f"def build(self, width): {RAISE}"),
        ("poolers", f"def build(self, width):\n        {POOL}"),
        ("losses", f"def build(self, width): {RAISE}"),
        ("data_sources", f"def open(self): {RAISE}"),
        ("optimizers", f"def build(self, *_): {RAISE}"),
        ("schedules", f"def factor(self, step, steps): {RAISE}"),
        ("evaluators", f"def prepare(self): {RAISE}"),
        ("evaluators", f"def _score(self, vectors): {RAISE}"),
        ("runtimes", f"def build(self): {RAISE}"),
    ],
)
def test_an_error_in_a_run_is_told_with_the_components_name_and_line(hook, body, call):
    result = call(hook, body, "run")
    kind, _, path = KINDS[hook]
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    message, note = result.output.splitlines()[-2:]
    assert message == "error: ValueError: broken (`--traceback` shows where)"
    component = f"in the {kind} `faulty` of `faulty-parts` 1.0"
    assert re.fullmatch(rf"{component} @ .*/r\.toml:\d+ {path}", note)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"def check(self): {RAISE}", "; in the loss `faulty` of `faulty-parts`"),
        (f"def remarks(self): {RAISE}", "; in the loss `faulty` of `faulty-parts`"),
        (
            f"def misfits(self, place): {RAISE}",
            "; in the loss `faulty` of `faulty-parts`",
        ),
        (f"def __attrs_post_init__(self): {RAISE}", "broken @ "),
        (
            "odd: int = attrs.field(default=1, validator=lambda *_: 1 / 0)",
            "division by",
        ),
    ],
)
def test_an_error_in_check_is_told_with_the_components_name(body, message, call):
    result = call("losses", body, "check")
    assert result.exit_code == 2
    assert message in result.output
    assert "`faulty-parts`" in result.output or "stage.pull.loss" in result.output


def test_an_error_when_parts_are_compared_is_told_with_the_components_name(
    installed_toy, distribute, put
):
    name = '"plain"\n'
    resolve = f"def resolve(self, default=None): {RAISE}"
    source = SOURCE.format(base="Average", body="", hook="poolers")
    source = source.replace(name, f"{name}\n    {resolve}\n")
    distribute("faulty-parts", {"faulty_parts": source})
    recipe = str(put("r.toml", RECIPE))
    result = CliRunner().invoke(
        main, ["run", recipe, "--set", "encoder.prompt.use=plain"]
    )
    assert result.exit_code == 1
    assert "in the prompt `plain` of `faulty-parts` 1.0 @ " in result.output


def test_a_traceback_is_shown_when_asked_for(call):
    body = f"def build(self): {RAISE}"
    result = call("runtimes", body, "--traceback", "run")
    assert isinstance(result.exception, ValueError)
