"""Saving of encoders with their adapters merged into the weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import tomli_w
from sentbed import Encoder, RunError
from sentbed.helpers import write_atomic, write_directory
from sentbed.tools import BACKBONE, ENCODER_FILE, encoder_table


def save_merged(encoder: Encoder, path: str | Path) -> None:
    """Save an encoder in a new directory, with its adapters merged into the weights.

    transformers can load the directory's `backbone/` without peft. Vectors stay the same up to rounding in the
    backbone's `dtype`.

    Raises:
        RunError: if the directory is not empty, or cannot be written.
    """
    target = Path(path)
    if target.is_dir() and any(target.iterdir()):
        raise RunError(f"`{path}` is not empty; export into a new directory")

    merged = encoder.backbone.merged()
    if merged is None or merged[0] == encoder.recipe.backbone:
        encoder.save(target)
        return

    component, backbone = merged

    def fill(directory: Path) -> None:
        encoder.save(directory)
        shutil.rmtree(directory / BACKBONE)
        backbone.save(directory / BACKBONE)
        recipe = attrs.evolve(encoder.recipe, backbone=component)
        table = encoder_table(recipe)
        write_atomic(directory / ENCODER_FILE, tomli_w.dumps(table))

    write_directory(target.resolve(), fill)
