from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from sentbed import API_VERSION, __version__
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


def listed(*arguments):
    result = CliRunner().invoke(cli.main, ["plugins", *arguments])
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


def test_what_a_plugin_prints_is_no_part_of_the_list(distribute):
    distribute("loud", {"loud_plugin": "print('hello')"})
    result = CliRunner().invoke(cli.main, ["plugins", "--json"])
    assert [plugin["name"] for plugin in json.loads(result.stdout)["plugins"]]
    assert result.stderr.startswith("hello\n")


def test_json_says_the_same_for_programs(installed_toy):
    listing = json.loads(listed("--json"))
    assert listing["api"] == API_VERSION
    (toy,) = (plugin for plugin in listing["plugins"] if plugin["name"] == "toy")
    assert toy == {
        "name": "toy",
        "distribution": "toy",
        "version": "1.0",
        "status": "loaded",
        "reason": None,
        "problem": None,
        "place": None,
        "api": None,
        "kinds": list(KINDS),
        "hooks": ["commands", "recipe_tables", "report_sections"],
        "slow": None,
    }
    assert {
        "kind": "data",
        "name": "words",
        "distribution": "toy",
        "version": "1.0",
        "summary": "Pairs of a made-up word and the same 13 letters on.",
    } in listing["components"]
    assert (listing["clashes"], listing["warnings"]) == ([], [])
    assert "hooks" not in listing


@pytest.mark.parametrize(
    ("source", "status", "reason"),
    [
        (
            "\nraise RuntimeError('no\\nGPU')",
            "broken",
            "RuntimeError: no GPU @ SITE/bad_plugin.py:2",
        ),
        (
            "sentbed_api = '9.0'",
            "refused",
            f"it is made for API 9.0 of sentbed, and sentbed {__version__} has",
        ),
    ],
)
def test_a_plugin_that_is_not_loaded_is_listed_with_the_reason(
    source, status, reason, distribute, tmp_path
):
    distribute("bad-dist", {"bad_plugin": source})
    lines = listed().splitlines()
    (at,) = (n for n, line in enumerate(lines) if line.startswith("bad_plugin"))
    assert lines[at].split() == ["bad_plugin", "–", "bad-dist", "1.0", status]
    assert lines[at + 1].startswith(
        "    " + reason.replace("SITE", str(tmp_path / "site"))
    )
    (plugin,) = (
        p for p in json.loads(listed("--json"))["plugins"] if p["name"] == "bad_plugin"
    )
    assert (plugin["status"], plugin["problem"]) == (status, plugin["reason"])


def test_a_disabled_plugin_is_listed_and_is_no_problem(distribute, monkeypatch):
    distribute("off-dist", {"off_plugin": POOLER})
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", "off-dist,typo")
    output = listed()
    place = "the environment variable `SENTBED_PLUGINS_DISABLE`"
    assert f"\n    disabled by {place}; take it out there\n" in output
    warning = f"`disable` of {place} names `typo`, which is not an installed plugin."
    assert output.endswith(f"\nwarning: {warning}\n")
    listing = json.loads(listed("--json"))
    (off,) = (p for p in listing["plugins"] if p["name"] == "off_plugin")
    assert (off["status"], off["problem"]) == ("disabled", None)
    assert listing["warnings"] == [warning]


def test_two_of_one_name_are_listed_as_a_clash(distribute):
    distribute("one-dist", {"one_plugin": POOLER})
    distribute("two-dist", {"two_plugin": POOLER})
    output = listed()
    assert (
        "\nclash: the pooler `mine` is offered by `one-dist` 1.0 (one_plugin, "
        in output
    )
    lines = output.splitlines()
    for name, other in (("one", "two"), ("two", "one")):
        (at,) = (n for n, line in enumerate(lines) if line.startswith(f"{name}_plugin"))
        assert lines[at + 1] == (
            f"    claims the pooler `mine`, as `{other}-dist` does; "
            "none is used; the last lines say how to choose"
        )
        assert ["pooler", "mine", f"{name}-dist", "clash:", "not", "taken"] in words(
            output
        )
    assert output.count("claims the") == 2
    assert "Mine of two." not in output
    (clash,) = json.loads(listed("--json"))["clashes"]
    assert f"clash: {clash.pop('message')}\n" in output
    assert clash == {
        "kind": "pooler",
        "name": "mine",
        "claims": ["one-dist", "two-dist"],
        "preferred": None,
    }


def test_three_of_one_name_each_say_who_else_claims_it(distribute):
    for name in ("one", "two", "three"):
        distribute(f"{name}-dist", {f"{name}_plugin": POOLER})
    assert (
        "\n    claims the pooler `mine`, as `one-dist` and `three-dist` do; none is used;"
        in listed()
    )


def test_a_plugin_whose_component_another_is_preferred_to_says_so(
    distribute, monkeypatch, tmp_path
):
    distribute("one-dist", {"one_plugin": POOLER})
    distribute("two-dist", {"two_plugin": POOLER})
    (tmp_path / "config.toml").write_text(
        '[plugins]\nprefer = { "pooler/mine" = "two-dist" }\n'
    )
    monkeypatch.setenv("SENTBED_CONFIG", str(tmp_path / "config.toml"))
    lines = listed().splitlines()
    (at,) = (n for n, line in enumerate(lines) if line.startswith("    claims the"))
    assert lines[at - 1].startswith("one_plugin")
    assert (
        lines[at]
        == "    claims the pooler `mine`, as `two-dist` does; that of `two-dist` is preferred"
    )
    assert ["pooler", "mine", "two-dist", "Mine", "of", "two."] in map(str.split, lines)
    assert not any("clash: not taken" in line for line in lines)


def test_two_plugins_of_one_distribution_are_told_apart(distribute):
    distribute("one-dist", {"one_plugin": POOLER, "two_plugin": POOLER})
    output = listed()
    for other in ("one_plugin", "two_plugin"):
        assert (
            f"\n    claims the pooler `mine`, as `one-dist:{other}` does; none is used"
            in output
        )


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
    output = listed()
    for name, other in (("one", "two"), ("two", "one")):
        lines = output.splitlines()
        (at,) = (n for n, line in enumerate(lines) if line.startswith(f"{name}_plugin"))
        assert lines[at].split()[-1] == "loaded"
        assert lines[at + 1].startswith(
            f"    claims the command `contest`, as `{other}-dist` does; none is used"
        )
    (clash,) = json.loads(listed("--json"))["clashes"]
    assert (clash["kind"], clash["claims"]) == ("command", ["one-dist", "two-dist"])


def test_the_list_shows_beginning_and_end_of_what_a_broken_plugin_says(distribute):
    distribute(
        "bad-dist", {"bad_plugin": "raise OSError('begin ' + 'x' * 10**6 + ' end')"}
    )
    output = listed()
    assert "OSError: begin xxx" in output
    assert "xxx end @ " in output
    assert max(map(len, output.splitlines())) < 2500
