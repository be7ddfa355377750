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
MARK = 9
"""Width of the column with `yes`, `limited` or `no`."""
UNWRAPPED = 10_000
"""Console width that prevents wrapping."""


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
    """Return the findings by area. Lines are wrapped only for a terminal, and commands never."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = None
    if not Console().is_terminal:
        width = UNWRAPPED
    console = Console(highlight=False, soft_wrap=True, width=width)
    column = max(len(finding.what) for finding in diagnosis.findings)
    area = None
    with console.capture() as capture:
        for finding in diagnosis.findings:
            if finding.area != area:
                area = finding.area
                console.print(Text(f"\n{area}", "bold"))
            table = Table.grid(padding=(0, 2, 0, 0))
            for size in (MARK, column, None):
                table.add_column(width=size, overflow="fold")
            mark = Text(f"  {finding.status}", COLOURS[finding.status])
            table.add_row(
                mark, printable(finding.what), Text(printable(finding.detail))
            )
            console.print(table, soft_wrap=False)
            if finding.remedy:
                console.print(
                    Text(f"{'':{MARK + 2}}-> {printable(finding.remedy)}", "dim")
                )
        if diagnosis.untried:
            console.print(
                Text(
                    f"\nnot tried: {', '.join(diagnosis.untried)}; `sentbed doctor --try` does"
                )
            )

    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join(lines).strip("\n")
