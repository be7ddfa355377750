"""Every setting of the papers' recipes as one flat fact: of each encoder, and of each stage of training."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from paper_studies import cells, files, name_of
from sentbed.tools import unstructure

OTHERS = (
    "angle-bert-base",
    "pcc-tuning-llama2-7b",
    "prompts/",
    "prompteol/figure-3",
    "prompteol/table-4",
)
"""How the names of recipes begin whose papers are beside the four and SimCSE, which tests of their own have, and
of those whose prompts are read from a file of the authors."""


CHECKS = "verify.toml"
"""The file of what `sentbed reproduce PAPER:verify` runs: rows of other studies, without training."""


@cache
def recipes():
    """Return every recipe below `recipes/papers`, as `FILE: ` or `PAPER/FILE: CELL`. Nothing is built."""
    recipes_of_cells = {}
    for path in files():
        name = name_of(path)
        if name.startswith(OTHERS) or path.name == CHECKS:
            continue
        for cell, recipe in cells(name).items():
            recipes_of_cells[f"{name}: {cell}"] = recipe
    return recipes_of_cells


@cache
def encoders():
    """Return `RECIPE: CELL: ENCODER` -> what it is made of, for every encoder of every cell."""
    return {
        f"{cell}: {name}": _encoder(encoder)
        for cell, recipe in recipes().items()
        for name, encoder in unstructure(recipe)["encoders"].items()
    }


@cache
def stages():
    """Return `RECIPE: CELL: STAGE` -> its hyperparameters, for every stage of every cell."""
    hyperparameters = {}
    for cell, recipe in recipes().items():
        table = unstructure(recipe)
        for stage in table["stage"]:
            trained = list(stage["train"]) or list(table["encoders"])
            encoder = table["encoders"][trained[0]]
            hyperparameters[f"{cell}: {stage['name']}"] = _stage(
                stage, encoder, table["run"]["seed"]
            )
    return hyperparameters


def _encoder(encoder):
    backbone, pooler, head = encoder["backbone"], encoder["pooler"], encoder["head"]
    prompt = encoder.get("prompt", {})
    random = f"random {backbone['use']} {backbone.get('size')}"
    width = str(head["projection"]) if "projection" in head else "none"
    quantized = backbone.get("quantization")
    return {
        "backbone": backbone.get("model", random),
        "pooler": _pooler(pooler),
        "head": f"{width}, normalized" if head["normalize"] else width,
        "weights": f"{quantized}, computed in {backbone['dtype']}"
        if quantized
        else backbone["dtype"],
        "demonstration": _demonstration(prompt.get("demonstration", ())),
    }


def _pooler(pooler):
    parts = [pooler["use"]]
    if "mlp_width" in pooler:
        parts.append(f"{pooler['mlp_width']} wide")
    if pooler.get("mlp_only_train"):
        parts.append("in training only")
    if pooler.get("pretrained"):
        parts.append("the model's own")
    return ", ".join(parts)


def _loss(loss):
    parts = [loss["use"]]
    if loss["use"] == "queue":
        parts.append("both ways" if loss["symmetric"] else "one way")
        if loss["mask_duplicates"]:
            parts.append("duplicates left out")
    return ", ".join(parts)


def _temperature(loss):
    temperature = loss.get("temperature", "none")
    if not isinstance(temperature, Mapping):
        return temperature
    parts = [f"its {temperature['parameter']} learnt from {temperature['initial']:g}"]
    if "lr" in temperature:
        parts.append(f"learning rate {temperature['lr']:g}")
    if "weight_decay" in temperature:
        parts.append(f"weight decay {temperature['weight_decay']:g}")
    return ", ".join(parts)


def _demonstration(demonstration):
    several = [demonstration] if isinstance(demonstration, Mapping) else demonstration
    return "; ".join(" -> ".join(example.values()) for example in several) or "none"


def _stage(stage, encoder, seed):
    loss, schedule, validate = (
        stage["loss"],
        stage["schedule"],
        stage.get("validate", {}),
    )
    lora = encoder["backbone"].get("lora")
    evaluator = validate.get("with", {})
    return {
        "data": stage["data"]["use"],
        "loss": _loss(loss),
        "temperature": _temperature(loss),
        "queue": loss.get("size", "none"),
        "optimizer": stage["optimizer"]["use"],
        "scale_parameter": stage["optimizer"].get("scale_parameter", "none"),
        "learning_rate": stage["optimizer"]["lr"],
        "weight_decay": stage["optimizer"]["weight_decay"],
        "max_grad_norm": stage["max_grad_norm"],
        "schedule": schedule["use"],
        "warm_up": schedule.get("warmup", schedule.get("hold")),
        "batch_size": stage["batch_size"],
        "epochs": stage.get("epochs", "none"),
        "max_length": stage.get("max_length", encoder["max_length"]),
        "dropout": encoder["backbone"].get("dropout", "the model's"),
        "lora": "none"
        if lora is None
        else f"r {lora['r']}, alpha {lora['alpha']:g}, dropout {lora['dropout']:g}",
        "weights": _encoder(encoder)["weights"],
        "validate_every": validate.get("every", "none"),
        "validate_on": ", ".join(
            evaluator.get("tasks", [evaluator.get("task", "none")])
        ),
        "seed": seed,
    }
