"""The command `doctor`: what this machine can run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from sentbed.errors import printable
from sentbed.tools import echo

if TYPE_CHECKING:
    from sentbed_workbench.doctor import Diagnosis


COLOURS = {"yes": "green", "limited": "yellow", "no": "red"}
"""Colour of each status."""
STATUS_WIDTH = 9
"""Width of the column with the status."""
UNWRAPPED = 10_000
"""Console width at which no line is wrapped."""


@click.command()
@click.option(
    "--try",
    "attempt",
    is_flag=True,
    help="Also run checks that take longer: compiling, devices, the model hub.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(attempt: bool, as_json: bool) -> None:
    """Say what this machine can run, with versions, and how to get what is missing.

    The exit code is 1 if a plugin is broken, else 0.
    """
    from rich.console import Console

    from sentbed_workbench.doctor import examine

    with Console(stderr=True).status("looking at this machine"):
        diagnosis = examine(attempt)
    if as_json:
        echo(_as_json(diagnosis))
    else:
        echo(_as_text(diagnosis), coloured=True)
    if diagnosis.broken:
        sys.exit(1)


def _as_json(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as JSON."""
    import json

    import attrs
    from sentbed_common import Finding

    names = [field.name for field in attrs.fields(Finding)]
    findings = []
    for finding in diagnosis.findings:
        findings.append({name: getattr(finding, name) for name in names})
    record = {
        "findings": findings,
        "broken": list(diagnosis.broken),
        "untried": list(diagnosis.untried),
    }
    return json.dumps(record, indent=2)


def _as_text(diagnosis: Diagnosis) -> str:
    """Return the findings by area. Lines are wrapped only for a terminal, and commands are never wrapped."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = None
    if not Console().is_terminal:
        width = UNWRAPPED
    console = Console(
        highlight=False,
        soft_wrap=True,
        width=width,
    )
    subject_width = max(len(finding.what) for finding in diagnosis.findings)
    area = None
    with console.capture() as capture:
        for finding in diagnosis.findings:
            if finding.area != area:
                area = finding.area
                console.print(Text(f"\n{area}", "bold"))

            table = Table.grid(padding=(0, 2, 0, 0))
            for size in (STATUS_WIDTH, subject_width, None):
                table.add_column(width=size, overflow="fold")
            status = Text(f"  {finding.status}", COLOURS[finding.status])
            detail = Text(printable(finding.detail))
            table.add_row(status, printable(finding.what), detail)
            console.print(table, soft_wrap=False)
            if finding.remedy:
                indent = " " * (STATUS_WIDTH + 2)
                remedy = f"{indent}-> {printable(finding.remedy)}"
                console.print(Text(remedy, "dim"))

        if diagnosis.untried:
            subjects = ", ".join(diagnosis.untried)
            note = f"\nnot tried: {subjects}; `sentbed doctor --try` does"
            console.print(Text(note))

    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join(lines).strip("\n")
