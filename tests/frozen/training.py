"""Losses and gradient norms of the first ten steps of every loss, optimiser and schedule."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import sentbed
import torch
import transformers
from doors import run_recipe, steps_of_run
from encoding import CASES as ENCODING
from encoding import write_rows
from records import Compared, Number
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW
from small_models import write_model
from texts import training_rows
from torch.nn import functional

CASES = tomllib.loads(Path(__file__).with_name("training.toml").read_text("utf-8"))

RECIPE = """
schema = 1
run = { name = "frozen", seed = 11 }
runtime = { use = "cpu", precision = "fp32", threads = 1 }
"""

STEPS = 1e-4
"""Tolerance of ten steps, whose roundings grow with each; a micro-batch moves them by up to a tenth of it."""

ROWS = 0.5
"""Tolerance of the share of rows whose positive is the nearest: among near ties, a rounding decides."""

ROUNDING = 1e-5
"""Tolerance of one step of ours beside that of another library, in float32."""


def numbers(directory: Path) -> Iterator[Number | Compared]:
    """Yield the numbers of all stages, with and without dropout and micro-batches."""
    for name in CASES["families"]:
        write_model(ENCODING["families"][name], directory / name)

    write_rows(directory / "rows.csv")

    lines = [row["anchor"] for row in training_rows()]
    (directory / "lines.txt").write_text("\n".join(lines), "utf-8")

    recipe = directory / "training.toml"
    recipe.write_text(recipe_text(), "utf-8")

    micro_batches = [f"stage.{name}.micro_batch=5" for name in CASES["stages"]]

    no_dropout = [f"encoders.{name}.backbone.dropout=0" for name in CASES["encoders"]]
    no_dropout.append("encoders.adapted.backbone.lora.dropout=0")

    run = run_recipe(recipe, directory / "dropout")
    yield from run_numbers("dropout", run)

    run = run_recipe(recipe, directory / "dropout-micro-batches", micro_batches)
    yield from run_numbers("dropout-micro-batches", run)

    run = run_recipe(recipe, directory / "no-dropout", no_dropout)
    whole = list(run_numbers("no-dropout", run))
    yield from whole

    settings = [*micro_batches, *no_dropout]
    run = run_recipe(recipe, directory / "no-dropout-micro-batches", settings)

    in_parts = run_numbers("no-dropout-micro-batches", run)
    for number, reference in zip(in_parts, whole, strict=True):
        yield Compared(
            number.key, number.value, reference.value, "the whole batch", STEPS
        )

    yield from first_losses(recipe, no_dropout)
    yield from optimizer_steps()


def recipe_text() -> str:
    """Return a recipe with all stages, each of which begins with the first weights."""
    lines = [RECIPE, "[encoders]"]
    for name, table in CASES["encoders"].items():
        lines.append(f"{name} = {table}")

    for name, values in CASES["stages"].items():
        lines += ["[[stage]]", f'name = "{name}"']

        for key, value in {**CASES["defaults"], **values}.items():
            lines.append(f"{key} = {value}")

    return "\n".join(lines)


def run_numbers(key: str, run: Path) -> Iterator[Number]:
    """Yield the losses, gradient norms and rates of a run's stages."""
    steps_by_stage = {}
    for step in steps_of_run(run):
        steps_by_stage.setdefault(step["stage"], []).append(step)

    for stage, steps in steps_by_stage.items():
        for name in ("loss", "grad_norm", "learning_rate"):
            values = [step[name] for step in steps]
            yield Number(f"{key}/{stage} {name}", values, STEPS)

        for name in steps[0]["metrics"]:
            values = [step["metrics"][name] for step in steps]
            tolerance = STEPS
            if name == "accuracy":
                tolerance = ROWS
            yield Number(f"{key}/{stage} {name}", values, tolerance)


def first_losses(recipe: Path, no_dropout: list[str]) -> Iterator[Compared]:
    """Compare losses of one batch of all rows with formulas of torch and numpy."""
    settings = list(no_dropout)
    rows = list(training_rows())

    for name in CASES["stages"]:
        settings += [f"stage.{name}.batch_size={len(rows)}", f"stage.{name}.steps=1"]

    run = run_recipe(recipe, recipe.with_name("first-losses"), settings)

    losses = {}
    for step in steps_of_run(run):
        losses[step["stage"]] = step["loss"]

    encoder = sentbed.build_encoder(sentbed.load_recipe(recipe), "student")

    units = []
    for column in ("anchor", "positive", "negative"):
        vectors = torch.from_numpy(encoder.encode([row[column] for row in rows]))
        units.append(functional.normalize(vectors))

    anchors, positives, negatives = units
    cosines = anchors @ positives.T
    with_negatives = torch.cat([cosines, anchors @ negatives.T], dim=1)

    own = torch.arange(len(rows))

    pairs = cosines.diagonal().double().numpy()
    scores = np.array([row["score"] for row in rows]) / 5

    exponents = []
    for i in own:
        for j in own:
            if scores[i] < scores[j]:
                exponents.append((pairs[i] - pairs[j]) / 0.05)
    # A covariance of n over variances of n - 1, as in the authors' code.
    correlation = np.corrcoef(pairs, scores)[0, 1] * (len(rows) - 1) / len(rows)

    references = {}
    references["info-nce"] = functional.cross_entropy(cosines / 0.05, own).item()
    references["hard-negatives"] = functional.cross_entropy(
        with_negatives / 0.05, own
    ).item()
    references["cosent"] = math.log1p(np.exp(exponents).sum())
    references["cosine-mse"] = float(np.mean((pairs - scores) ** 2))
    references["pearson"] = 1 - correlation

    for name, reference in references.items():
        yield Compared(
            f"first/{name}", losses[name], reference, "its formula", ROUNDING
        )


def optimizer_steps() -> Iterator[Compared]:
    """Compare ten steps of the optimisers with those of torch and transformers."""
    weights = [torch.nn.Parameter(torch.eye(6, 4)) for _ in range(4)]
    adamw = torch.optim.AdamW([weights[1]], lr=0.01, weight_decay=0.1)
    adafactor = transformers.optimization.Adafactor(
        [weights[3]], lr=0.01, relative_step=False, warmup_init=False
    )

    our_adamw = AdamW(lr=0.01, weight_decay=0.1).build([("weight", weights[0])])
    our_adafactor = Adafactor(lr=0.01).build([("weight", weights[2])])
    optimizers = [our_adamw, adamw, our_adafactor, adafactor]

    generator = np.random.default_rng(3)
    for _ in range(10):
        gradient = torch.from_numpy(generator.standard_normal((6, 4))).float()

        for weight, optimizer in zip(weights, optimizers, strict=True):
            weight.grad = gradient.clone()
            optimizer.step()

    values = [weight.tolist() for weight in weights]
    yield Compared("optimizer/adamw", values[0], values[1], "torch", ROUNDING)
    yield Compared(
        "optimizer/adafactor", values[2], values[3], "transformers", ROUNDING
    )
