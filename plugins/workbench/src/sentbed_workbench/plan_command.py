"""The command `plan`: show what a recipe needs, without loading weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import click
from sentbed.tools import set_option

if TYPE_CHECKING:
    from sentbed_workbench.resource_plan import Plan


@click.command()
@click.argument("recipe", type=click.Path(dir_okay=False))
@set_option()
@click.option(
    "--engines",
    is_flag=True,
    help="Time every installed engine on texts of the evaluations, instead of a plan.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON, in bytes and operations.",
)
def plan(
    recipe: str,
    overrides: tuple[str, ...],
    engines: bool,
    as_json: bool,
) -> None:
    """Say what RECIPE will take: parameters, memory, steps. No weights are read.

    With `--engines`, build the main encoder on every installed engine in each precision, and print texts a
    second, the least cosine to `cpu` in fp32, and the change of each score.

    What if: `--set stage.nli.batch_size=512`, `--set runtime.use=cuda`.
    """
    from sentbed.errors import RecipeError
    from sentbed.tools import columns, load_plugins, load_recipe

    from sentbed_workbench.engine_table import engine_rows
    from sentbed_workbench.resource_plan import plan as plan_recipe

    try:
        loaded = load_recipe(recipe, overrides)
    except RecipeError as error:
        # Files missing on this machine may exist on the machine that runs the recipe.
        loaded = load_recipe(recipe, overrides, check_files=False)
        messages = [problem.message for problem in error.problems]
        for message in dict.fromkeys(messages):
            click.echo(f"not here: {message}", err=True)

    if engines:
        for line in columns(list(engine_rows(loaded, load_plugins()))):
            click.echo(line)
        return

    record = _record(plan_recipe(loaded))
    if as_json:
        click.echo(json.dumps(record, indent=2))
        return
    for title, part in record.items():
        click.echo(title)
        for line in _lines(part):
            click.echo(f"  {line}")


def _record(resource_plan: Plan) -> dict[str, dict[str, Any]]:
    """Return all numbers of a plan, in bytes and operations: those of the device, each encoder and each stage."""
    device = resource_plan.device
    without_title = attrs.filters.exclude("kind", "title")
    record = {f"runtime {device.kind}": attrs.asdict(device, filter=without_title)}
    for name, problem in resource_plan.unknown.items():
        record[f"encoder {name}"] = {"problems": (problem,)}
    for name, encoder in resource_plan.encoders.items():
        built = encoder.backbone.built
        record[f"encoder {name}"] = {
            "backbone": encoder.recipe.backbone.name,
            **{key: str(value) for key, value in built.origin.items()},
            "parameters": encoder.parameters,
            "positions": built.max_length,
            "width": encoder.width,
            "weight_bytes": encoder.weight_bytes,
        }
    for stage in resource_plan.stages:
        record[f"stage {stage.title}"] = attrs.asdict(stage, filter=without_title)
    if resource_plan.encoding or resource_plan.problems:
        record["evaluation"] = {
            "memory": dict(resource_plan.encoding),
            "problems": resource_plan.problems,
        }
    return record


def _lines(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each value that is known; parts of the memory are below their sum, the largest first."""
    for name, value in part.items():
        label = f"{name.replace('_', ' '):<20}"
        if value is None or value in ("", (), {}):
            continue
        if name == "fits":
            answer = "no: set `micro_batch`, use `lora`, or spread it"
            if value:
                answer = "yes"
            yield f"{label}{answer}"
        elif isinstance(value, dict):
            yield f"{label}{_bytes(sum(value.values()))}"
            for key, size in sorted(value.items(), key=lambda entry: -entry[1]):
                yield f"  {key:<18}{_bytes(size)}"
        elif isinstance(value, tuple):
            for text in value:
                yield f"{label}{text}"
        elif name in ("memory", "libraries", "weight_bytes"):
            yield f"{label}{_bytes(value)}"
        elif isinstance(value, float):
            yield f"{label}{value:,.4g}"
        elif isinstance(value, int):
            yield f"{label}{value:,}"
        else:
            yield f"{label}{value}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
