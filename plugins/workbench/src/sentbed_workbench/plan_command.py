"""The command `plan`: show what a recipe needs, without loading weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import click
from sentbed.protocols import Recipe
from sentbed.tools import set_option

if TYPE_CHECKING:
    from sentbed_workbench.plan_records import Plan

LABEL_WIDTH = 14
Row: TypeAlias = tuple[str, str, Callable[[Any], str]]
"""Line of the output: label, key in the record, and the function that turns the value into text."""


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

    resource_plan = plan_recipe(loaded)
    record = _record(resource_plan)
    if as_json:
        click.echo(json.dumps(record, indent=2))
    else:
        click.echo("\n".join(_lines(record, loaded)))


def _record(resource_plan: Plan) -> dict[str, Any]:
    """Return all numbers of a plan for JSON, in bytes and operations."""
    from sentbed_workbench.module_sizes import count

    device = resource_plan.device
    encoders: dict[str, dict[str, Any]] = {}
    for name, encoder in resource_plan.encoders.items():
        if encoder.fake is None:
            encoders[name] = {"problem": encoder.problem}
            continue
        backbone = encoder.fake
        encoders[name] = {
            "source": {key: str(value) for key, value in backbone.built.origin.items()},
            "parameters": encoder.parameters,
            "trainable": count(encoder.trained),
            "blocks": backbone.blocks,
            "hidden": backbone.built.width,
            "positions": backbone.built.max_length,
            "width": encoder.width(),
            "weight_bytes": encoder.weight_bytes,
            "copy_bytes": backbone.copy_bytes(device.precision),
        }
    return {
        "device": attrs.asdict(device),
        "encoders": encoders,
        "stages": [attrs.asdict(stage) for stage in resource_plan.stages],
        "encoding": dict(resource_plan.encoding),
    }


def _lines(record: Mapping[str, Any], recipe: Recipe) -> Iterator[str]:
    """Yield a plan as lines of text."""
    device = record["device"]
    spread = f"{device['count']} x " if device["count"] > 1 else ""
    yield f"runtime {device['kind']}: {spread}{device['name']}, {device['precision']}"
    yield from _rows(device, DEVICE)

    for name, encoder in record["encoders"].items():
        yield ""
        yield f"encoder {name}: {recipe.encoders[name].backbone.name}"
        yield from _rows(encoder, ENCODER)

    for stage, planned in zip(recipe.stage, record["stages"], strict=True):
        yield ""
        title = f"stage {stage.name}: trains {', '.join(recipe.trained(stage))}"
        if stage.freeze:
            title += f", beside {', '.join(stage.freeze)} (frozen)"
        yield title
        yield from _rows(planned, STAGE)

    if not record["stages"]:
        yield ""
        yield "evaluation"
        yield from _rows(record, EVALUATION)


def _rows(facts: Mapping[str, Any], table: Iterable[Row]) -> Iterator[str]:
    """Yield a line for each row whose value is known. Further lines of a value are indented."""
    for label, name, show in table:
        value = facts.get(name)
        if value is None or value in ("", (), {}):
            continue
        first, *others = show(value).splitlines()
        yield f"  {label:<{LABEL_WIDTH}}{first}"
        for line in others:
            yield f"  {'':<{LABEL_WIDTH}}{line}"


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _parts(parts: Mapping[str, int]) -> str:
    """Return the total size and, on further lines, the parts, the largest first."""
    lines = [_bytes(sum(parts.values()))]
    for name, size in sorted(parts.items(), key=lambda part: -part[1]):
        lines.append(f"{_bytes(size):>9}  {name}")
    return "\n".join(lines)


def _teraflops(flops: float) -> str:
    return f"{flops / 1e12:,.3g}"


DEVICE: tuple[Row, ...] = (("memory", "memory", _bytes),)
ENCODER: tuple[Row, ...] = (
    ("unknown", "problem", str),
    ("from", "source", lambda source: "\n".join(map(" ".join, source.items()))),
    ("parameters", "parameters", _number),
    ("trainable", "trainable", _number),
    ("blocks", "blocks", _number),
    ("states", "hidden", lambda width: f"{width} numbers"),
    ("vector", "width", lambda width: f"{width} numbers"),
    ("weights", "weight_bytes", _bytes),
)
STAGE: tuple[Row, ...] = (
    ("unknown", "problems", "\n".join),
    ("rows", "rows", _number),
    ("steps", "steps", _number),
    ("validations", "validations", _number),
    ("tokens", "tokens_a_text", lambda tokens: f"{tokens:.1f} per text"),
    ("", "tokens_a_step", lambda tokens: f"{tokens:,.0f} per step"),
    ("", "lengths", str),
    ("arithmetic", "flops_a_step", lambda flops: f"{_teraflops(flops)} TFLOP per step"),
    ("memory", "memory", _parts),
    ("fits", "fits", lambda fits: "yes" if fits else "DOES NOT FIT"),
    ("advice", "advice", str),
)
EVALUATION: tuple[Row, ...] = (("memory", "encoding", _parts),)
"""Line of evaluations outside of stages."""
