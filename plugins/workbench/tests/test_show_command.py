from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import Literal

import pytest
import tomli
from click.testing import CliRunner
from sentbed._cli import main as cli
from sentbed.kinds import KINDS
from sentbed.tools import load_plugins
from sentbed_workbench.component_docs import tables, type_name


def invoke(*arguments):
    return CliRunner().invoke(cli.main, arguments)


def test_show_explains_a_component_with_fields_defaults_and_an_example(
    installed_toy,
):
    result = invoke("show", "loss", "pull")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "loss pull  (toy 1.0)"
    assert "Half the mean squared distance of a pair." in lines
    at = lines.index("  temperature: float, default 1.0")
    assert lines[at + 1] == "      What the distance is divided by."
    example = result.output.partition("example:\n")[2]
    assert tomli.loads(example)["stage"][0]["loss"] == {"use": "pull"}


def test_a_type_is_shown_without_modules_and_its_literals_as_they_are():
    hint = tuple[Literal["1.3b", "a.b"], Path]
    assert type_name(hint) == "tuple[Literal['1.3b', 'a.b'], Path]"


def test_an_example_gives_every_required_field(installed_toy):
    result = invoke("show", "optimizer", "sgd")
    assert "  lr: float, required\n" in result.output
    example = tomli.loads(result.output.partition("example:\n")[2])
    assert set(example["stage"][0]["optimizer"]) == {"use", "lr"}


def test_show_without_a_name_explains_a_table_of_a_recipe():
    lines = invoke("show", "stage").output.splitlines()
    assert lines[0] == "`[[stage]]`: one training phase."
    at = lines.index("  distinct: bool, default false")
    assert lines[at + 1].startswith(
        "      Whether two rows with a common text are kept out of the same batch"
    )


def test_every_table_can_be_shown():
    for name in tables(load_plugins()):
        assert invoke("show", name).exit_code == 0


def test_show_of_a_kind_lists_its_components(installed_toy):
    result = invoke("show", "loss")
    assert result.exit_code == 0
    *lines, blank, last = (line.split() for line in result.output.splitlines())
    summary = ["Half", "the", "mean", "squared", "distance", "of", "a", "pair."]
    assert ["pull", "toy", *summary] in lines
    assert lines == sorted(lines)
    assert not any(line[0] == "sgd" for line in lines)
    assert (blank, " ".join(last)) == ([], "`sentbed show loss NAME` explains one")


@pytest.mark.sweep(5)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_listed(kind, installed_toy):
    assert kind not in tables(load_plugins())
    result = invoke("show", kind)
    assert result.exit_code == 0
    assert result.output.endswith(f"`sentbed show {kind} NAME` explains one\n")


def test_show_of_a_kind_that_nobody_offers_says_so(monkeypatch):
    points = distribution("sentbed-workbench").entry_points.select(group="sentbed")
    monkeypatch.setattr("sentbed._registry.registry.entry_points", lambda group: points)
    result = invoke("show", "exporter")
    expected = "no installed plugin offers any exporter; see `sentbed plugins`\n"
    assert (result.exit_code, result.output) == (0, expected)


def test_show_of_what_is_neither_says_what_there_is():
    result = invoke("show", "los")
    assert result.exit_code == 2
    message = "there is no kind of component or table of a recipe `los`; choose one of backbone, "
    assert message in result.output
    assert ", stage, " in result.output


def test_show_of_an_unknown_component_suggests_one(installed_toy):
    result = invoke("show", "loss", "pul")
    assert result.exit_code == 1
    assert result.output == "error: there is no loss `pul`. Did you mean `pull`?\n"


def test_a_component_without_its_kind_is_found():
    result = invoke("show", "info-nce")
    assert "`info-nce` is a loss: `sentbed show loss info-nce`" in result.stderr
