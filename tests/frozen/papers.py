"""Losses and gradient norms of ten steps of the short recipes, those of four papers among them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import attrs
from doors import run_recipe, steps_of_run
from records import Number, SkippedError
from training import STEPS, run_numbers

CASES = tomllib.loads(Path(__file__).with_name("papers.toml").read_text("utf-8"))

TEN_STEPS = 0.1
"""Tolerance of ten steps. At temperature 0.01 each step enlarges what another processor rounds otherwise: with
PyTorch's kernels for any processor, losses moved by up to 0.8 % and gradient norms by 2.9 %."""

RECIPES = Path(__file__).parents[2] / "recipes" / "mini"


def numbers(directory: Path) -> Iterator[Number]:
    """Yield the numbers of each recipe; raise `SkippedError` without real data."""
    if "SENTBED_DATA" not in os.environ:
        raise SkippedError("`SENTBED_DATA` names no directory with real data")

    for name, case in CASES.items():
        settings = ["runtime.precision=fp32", "runtime.threads=1", "evaluate="]
        for stage in case["stages"]:
            settings.append(f"stage.{stage}.steps=10")
        recipe = RECIPES / f"{case.get('recipe', name)}.toml"
        settings += case["settings"]
        run = run_recipe(recipe, directory / name, settings)
        yield from first_step(name, run)
        for number in run_numbers(name, run):
            yield attrs.evolve(number, tolerance=max(number.tolerance, TEN_STEPS))


def first_step(name: str, run: Path) -> Iterator[Number]:
    """Yield the loss and the gradient norm of a run's first step, which no earlier step has changed."""
    step = next(iter(steps_of_run(run)))
    for key in ("loss", "grad_norm"):
        yield Number(f"{name} first {key}", step[key], STEPS)
