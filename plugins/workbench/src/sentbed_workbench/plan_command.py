"""The command `plan`: show what a recipe will need, without loading anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click
from sentbed.tools import echo, set_option

if TYPE_CHECKING:
    from sentbed_common import Device

    from sentbed_workbench.resource_plan import EncoderPlan, Plan, StagePlan

LABEL_WIDTH = 14


@click.command()
@click.argument("recipe", type=click.Path(dir_okay=False))
@set_option()
@click.option(
    "--on",
    metavar="DEVICE",
    help="Plan for a device that is not here, such as `H100` or `v5e`.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON, in bytes, operations and seconds.",
)
def plan(
    recipe: str, overrides: tuple[str, ...], on: str | None, as_json: bool
) -> None:
    """Say what RECIPE will take: parameters, memory, negatives, steps, time. No weights are read.

    What if: `--set stage.nli.batch_size=512`, `--set runtime.use=cuda --on A100`.
    """
    from sentbed.errors import RecipeError
    from sentbed.tools import load_recipe

    from sentbed_workbench.resource_plan import plan as plan_recipe

    try:
        loaded = load_recipe(recipe, overrides)
    except RecipeError as error:
        # Files missing on this machine may exist on the machine that runs the recipe.
        loaded = load_recipe(recipe, overrides, look=False)
        for message in dict.fromkeys(problem.message for problem in error.problems):
            echo(f"not here: {message}", err=True)

    resource_plan = plan_recipe(loaded, on)
    if as_json:
        echo(_as_json(resource_plan))
    else:
        echo("\n".join(_lines(resource_plan)))


def _as_json(resource_plan: Plan) -> str:
    import json

    import attrs

    return json.dumps(attrs.asdict(resource_plan), indent=2)


def _lines(resource_plan: Plan) -> Iterator[str]:
    yield from _device(resource_plan.device, resource_plan.device_problem)
    for encoder in resource_plan.encoders:
        yield ""
        yield from _encoder(encoder)

    for stage in resource_plan.stages:
        yield ""
        yield from _stage(stage, resource_plan.device)

    if not resource_plan.stages and resource_plan.encoding:
        yield ""
        yield "evaluation"
        yield from _memory(
            resource_plan.encoding,
            resource_plan.device,
            resource_plan.encoding_fits,
            "memory",
        )
    if resource_plan.stages:
        yield ""
        yield "Evaluations take time of their own: how many sentences they have is not known here."


def _device(device: Device, problem: str) -> Iterator[str]:
    count, spread = "", ""
    if device.count > 1:
        count, spread = f"{device.count} x ", f", {device.parallel}"
    yield f"runtime {device.kind}: {count}{device.name}, {device.precision}{spread}"
    if problem:
        yield _row("unknown", problem)
    facts = []
    if device.flops is not None:
        facts.append(f"{device.flops / 1e12:,.2f} TFLOP/s".replace(".00", ""))
    if device.bandwidth is not None:
        facts.append(f"{_bytes(device.bandwidth)}/s")
    if facts:
        yield _row("speed", f"{', '.join(facts)} ({device.source})")
    if device.memory is not None:
        yield _row("memory", _bytes(device.memory))


def _encoder(encoder: EncoderPlan) -> Iterator[str]:
    yield f"encoder {encoder.name}: {encoder.backbone}"
    if encoder.problem:
        yield _row("unknown", encoder.problem)
        return
    at_most = ""
    if encoder.at_most:
        at_most = "at most "
    trainable = encoder.trainable or 0
    trained = f"{trainable:,} trainable"
    if trainable == encoder.parameters:
        trained = "all trainable"
    yield _row("from", encoder.source)
    yield _row("parameters", f"{at_most}{encoder.parameters:,}, {trained}")
    if encoder.at_most:
        yield _row("", f"({encoder.at_most})")
    shape = [f"{encoder.layers} layers of width {encoder.hidden}"]
    if encoder.heads is not None:
        shape.append(f"{encoder.heads} heads")
    if encoder.inner is not None:
        shape.append(f"inner width {encoder.inner}")
    shape.append(f"{at_most}{encoder.vocabulary:,} words in the vocabulary")
    yield _row("shape", ", ".join(shape))
    yield _row("vector", f"{encoder.width} numbers")
    yield _row("weights", _bytes(encoder.weight_bytes or 0))
    if encoder.tokens_a_second is not None:
        low, high = encoder.tokens_a_second
        yield _row(
            "encodes",
            f"{_short(low)} to {_short(high)} tokens/s a device, in texts of 32",
        )


def _stage(stage: StagePlan, device: Device) -> Iterator[str]:
    title = f"stage {stage.name}: trains {', '.join(stage.trained)}"
    if stage.frozen:
        title += f", beside {', '.join(stage.frozen)} (frozen)"
    yield title
    for problem in stage.problems:
        yield _row("unknown", problem)
    if stage.rows is not None:
        yield _row("rows", f"{stage.rows:,}")
    yield _row("steps", _steps(stage))
    if stage.negatives is None:
        yield _row("negatives", "unknown")
    else:
        yield _row("negatives", f"{stage.negatives:,} an anchor and step, at most")
    for remark in stage.remarks:
        yield _row("note", remark)
    if stage.tokens_a_text is not None:
        tokens = f"{stage.tokens_a_text:.1f} a text"
        if stage.tokens_a_step is not None:
            tokens += f", {stage.tokens_a_step:,.0f} a step"
        yield _row("tokens", f"{tokens} ({stage.lengths})")
    if stage.flops_a_step is not None:
        yield _row("arithmetic", f"{stage.flops_a_step / 1e12:,.3g} TFLOP a step")
    if stage.memory:
        yield from _memory(stage.memory, device, stage.fits, "memory", stage.peak)
    if stage.evaluating:
        yield _row(
            "validation",
            f"{_bytes(sum(stage.evaluating.values()))}: {_parts(stage.evaluating)}",
        )
    if stage.advice:
        yield _row("advice", stage.advice)
    if stage.seconds is not None:
        yield _row("time", _time(stage.seconds, stage.validations, device))


def _steps(stage: StagePlan) -> str:
    steps = "unknown number of steps"
    if stage.steps is not None:
        steps = f"{stage.steps:,} steps"
    steps += f" of {stage.batch_size:,} rows"
    if stage.micro_batch is not None:
        steps += f", {stage.micro_batch} at a time"
    if stage.epochs is not None:
        steps += f", {_counted(stage.epochs, 'epoch')}"
    return steps


def _time(seconds: tuple[float, float], validations: int | None, device: Device) -> str:
    """Return the time of a stage, from the shortest to the longest in `seconds`."""
    fast, slow = _duration(seconds[0]), _duration(seconds[1])
    time = f"{fast} to {slow}"
    if fast == slow:
        time = f"about {fast}"
    share = " to ".join(f"{part:.0%}" for part in device.share)
    time += f", at {share} of the peak ({device.share_source})"
    if validations:
        time += f", and {_counted(validations, 'validation')}"
    return time


def _counted(count: int, noun: str) -> str:
    if count == 1:
        return f"{count} {noun}"
    return f"{count:,} {noun}s"


def _memory(
    parts: Mapping[str, int],
    device: Device,
    fits: bool | None,
    label: str,
    peak: int | None = None,
) -> Iterator[str]:
    total = _bytes(peak or sum(parts.values()))
    if device.count > 1:
        total += " on each device"
    if fits is not None and device.memory is not None:
        verdict = "DOES NOT FIT"
        if fits:
            verdict = "fits"
        total += f" of {_bytes(device.memory)}: {verdict}"
    yield _row(label, total)
    for name, size in _largest_first(parts):
        yield _row("", f"{_bytes(size):>9}  {name}")


def _parts(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {_bytes(size)}" for name, size in _largest_first(parts))


def _largest_first(parts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(parts.items(), key=lambda part: -part[1])


def _row(label: str, text: str) -> str:
    return f"  {label:<{LABEL_WIDTH}}{text}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _short(number: float) -> str:
    """Return a number with three significant digits."""
    if number >= 999_500:
        return f"{float(f'{number / 1e6:.3g}'):,g} million"
    return f"{float(f'{number:.3g}'):,g}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
