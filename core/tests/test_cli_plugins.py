from __future__ import annotations

from click.testing import CliRunner
from sentbed import __version__
from sentbed._cli import main as cli
from sentbed.kinds import KINDS

POOLER = '''
import attrs
import sentbed.protocols
from typing import ClassVar

@attrs.frozen
class Mine(sentbed.protocols.Pooler):
    """Mine of two."""
    name: ClassVar[str] = "mine"
    def build(self, width): ...

@sentbed.hookimpl
def poolers():
    return [Mine]
'''


def listed():
    result = CliRunner().invoke(cli.main, ["plugins"])
    assert result.exit_code == 0, result.output
    return result.output


def words(output):
    return [line.split() for line in output.splitlines()]


def test_plugins_stand_with_kinds_distribution_version_and_status(installed_toy):
    lines = words(listed())
    assert lines[0] == ["PLUGIN", "KINDS", "DISTRIBUTION", "VERSION", "STATUS"]
    assert ["console", "hooks", "sentbed-trackers", __version__, "loaded"] in lines
    (toy,) = (line for line in lines if line[:1] == ["toy"])
    assert toy == ["toy", *", ".join([*KINDS, "hooks"]).split(), "toy", "1.0", "loaded"]


def test_components_stand_with_kind_name_distribution_and_what_they_are(installed_toy):
    output = listed().partition("\n\n")[2]
    lines = words(output)
    assert lines[0] == ["KIND", "NAME", "DISTRIBUTION"]
    summary = ["Half", "the", "mean", "squared", "distance", "of", "a", "pair."]
    assert ["loss", "pull", "toy", *summary] in lines
    kinds = [line[0] for line in lines[1:]]
    assert set(kinds) == set(KINDS)
    assert kinds == sorted(kinds, key=list(KINDS).index)


def test_a_plugin_that_is_not_loaded_is_listed_with_the_reason(distribute, tmp_path):
    distribute("bad-dist", {"bad_plugin": "\nraise RuntimeError('no\\nGPU')"})
    lines = listed().splitlines()
    (at,) = (n for n, line in enumerate(lines) if line.startswith("bad_plugin"))
    assert lines[at].split() == ["bad_plugin", "–", "bad-dist", "1.0", "broken"]
    reason = f"    RuntimeError: no GPU @ {tmp_path}/site/bad_plugin.py:2"
    assert lines[at + 1] == reason


def test_a_disabled_plugin_is_listed(distribute, monkeypatch):
    distribute("off-dist", {"off_plugin": POOLER})
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", "off-dist,typo")
    place = "the environment variable `SENTBED_PLUGINS_DISABLE`"
    assert f"\n    disabled by {place}; take it out there\n" in listed()


def test_two_of_one_name_are_listed_as_a_clash(distribute):
    distribute("one-dist", {"one_plugin": POOLER})
    distribute("two-dist", {"two_plugin": POOLER})
    output = listed()
    assert (
        "\nclash: the pooler `mine` is offered by `one-dist` 1.0 (one_plugin, "
        in output
    )
    assert "Mine of two." not in output


CONTEST = """
import click
import sentbed
from sentbed.protocols import Lazy

@click.command()
def contest():
    click.echo("ran")

@sentbed.hookimpl
def commands():
    return {"contest": Lazy("NAME_plugin:contest", "A command."), "NAME": Lazy("NAME_plugin:contest", "More.")}
"""


def test_a_command_that_two_claim_is_an_error_and_their_others_run(distribute):
    for name in ("one", "two"):
        distribute(f"{name}-dist", {f"{name}_plugin": CONTEST.replace("NAME", name)})
    result = CliRunner().invoke(cli.main, ["contest"])
    assert result.exit_code == 2
    assert (
        "the command `contest` is offered by `one-dist` 1.0 (one_plugin, "
        in result.output
    )
    assert " and by `two-dist` 1.0 (two_plugin, " in result.output
    assert "; uninstall or disable all but one" in result.output
    for name in ("one", "two"):
        assert CliRunner().invoke(cli.main, [name]).output == "ran\n"
    assert "contest" not in CliRunner().invoke(cli.main, ["--help"]).output


def test_the_list_shows_beginning_and_end_of_what_a_broken_plugin_says(distribute):
    distribute(
        "bad-dist", {"bad_plugin": "raise OSError('begin ' + 'x' * 10**6 + ' end')"}
    )
    output = listed()
    assert "OSError: begin xxx" in output
    assert "xxx end @ " in output
    assert max(map(len, output.splitlines())) < 2500
