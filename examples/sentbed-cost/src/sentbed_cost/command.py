"""The command `cost`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
from sentbed import RunError


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(file_okay=False))
def cost(runs: Sequence[str]) -> None:
    """Show the cost of each of RUNS, and the total."""
    totals: dict[str, float] = {}
    for run in runs:
        price, currency = _price(Path(run))
        totals[currency] = totals.get(currency, 0.0) + price
        click.echo(f"{run}: {price:.6f} {currency}")
    for currency, total in totals.items():
        click.echo(f"together: {total:.6f} {currency}")


def _price(run: Path) -> tuple[float, str]:
    """Return price and currency from a run's record. Raises `RunError`."""
    file = run / "report.json"
    try:
        section = json.loads(file.read_text("utf-8"))["sections"]["cost"]
        return float(section["rows"][0][-1]), str(section["columns"][-1])
    except OSError as error:
        raise RunError(f"`{run}` has no record ({error.strerror}); name the directory of a run") from error
    except (ValueError, LookupError, TypeError) as error:
        raise RunError(f"`{file}` says nothing of a cost; run a recipe with `[cost]`") from error
