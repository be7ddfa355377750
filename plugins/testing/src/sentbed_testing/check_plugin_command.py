"""The command `check-plugin`: it checks a plugin and everything that the plugin offers."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence

import click
from sentbed.tools import FAILED, echo


@click.command("check-plugin")
@click.argument("name")
@click.option(
    "--example",
    "examples",
    type=(str, str),
    multiple=True,
    metavar="KIND/NAME TABLE",
    help="Fields to test a component with, such as `--example data/diary '{ path = \"diary.txt\" }'`.",
)
@click.option(
    "--skip",
    "skipped",
    type=(str, str, str),
    multiple=True,
    metavar="KIND/NAME RULE REASON",
    help="Leave out a rule of a component.",
)
def check_plugin(
    name: str,
    examples: tuple[tuple[str, str], ...],
    skipped: tuple[tuple[str, str, str], ...],
) -> None:
    """Check the plugin NAME against the rules of plugins, and its components against the rules of their kinds.

    NAME is the name of a plugin or of its distribution, as `sentbed plugins` lists them.
    """
    from sentbed_testing import plugin_checks
    from sentbed_testing.conformance import ConformanceError

    skip: dict[str, dict[str, str]] = {}
    for component, rule, reason in skipped:
        skip.setdefault(component, {})[rule] = reason
    fields = {component: _parse_table(text) for component, text in examples}
    try:
        report = plugin_checks.check_plugin(name, examples=fields, skip=skip)
    except ConformanceError as error:
        echo(f"error: {error}", err=True)
        broken = [failure.rule for failure in error.failures]
        _explain_example(name, str(error), broken)
        sys.exit(FAILED)

    echo(report)
    _explain_example(name, str(report), [])


def _explain_example(
    name: str,
    message: str,
    broken: Sequence[str],
) -> None:
    """Print how an example (fields of a component) is given on the command line, if `message` asks for one.

    `message` is the message of the rules, and `broken` are the names of the broken rules. If a component breaks
    the rule `defaults`, the printed command names this component.
    """
    if "`example`" not in message:
        return
    component = "KIND/NAME"
    for rule in broken:
        path, _, component_rule = rule.partition(": ")
        if component_rule == "defaults":
            component = path
            break

    form = f"sentbed check-plugin {name} --example {component} '{{ FIELD = VALUE }}'"
    echo(f"on the command line, fields are given with `{form}`", err=True)


def _parse_table(text: str) -> dict[str, object]:
    """Return an inline table of TOML. Raises `click.BadParameter` if `text` is something else."""
    try:
        table = tomllib.loads(f"table = {text}")["table"]
    except tomllib.TOMLDecodeError as error:
        raise click.BadParameter(
            f"{text!r} is no TOML: {error}", param_hint="--example"
        ) from error

    if not isinstance(table, dict):
        raise click.BadParameter(
            f"{text!r} is no table; write `{{ key = value }}`", param_hint="--example"
        )
    return table
