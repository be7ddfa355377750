"""The base class of encoders whose parts are torch modules, on any engine: widths, weights, files."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from sentbed.helpers import SUMS_FILE
from sentbed.protocols import BuiltBackbone, PlacedEncoder

from sentbed_hardware.engine_parts.component_output_checks import broken_weight
from sentbed_hardware.engine_parts.encoder_module import (
    BACKBONE_DIRECTORY,
    MODULES_FILE,
    EncoderModule,
    save_modules,
)


class ModuleEncoder(PlacedEncoder):
    """A placed encoder whose weights are in a torch module in this process."""

    def __init__(self, backbone: BuiltBackbone, module: EncoderModule) -> None:
        self.backbone = backbone
        self.module: EncoderModule = module
        self.width = module.width
        self.trained_width = module.trained_width
        self.fitted_on = module.fitted_on
        self.parameter_counts = module.parameter_counts

    def _of(self, module: EncoderModule) -> Self:
        """Return a copy of this encoder for another module."""
        other = copy.copy(self)
        ModuleEncoder.__init__(other, self.backbone, module)
        return other

    def broken_weight(self) -> str | None:
        """Return the name of a weight that is NaN or infinite, or None if there is none."""
        return broken_weight(self.module)

    def save(self, directory: Path) -> Mapping[str, str]:
        """Write the backbone in its own layout, and the weights of pooler and head beside it.

        If there is a `twin`, the backbone's files are links to the twin's, and their SHA-256 is returned.
        """
        sums: dict[str, str] = {}
        if self.twin is not None:
            sums = _linked(self.twin, directory)
        if not sums:
            self.backbone.save(directory / BACKBONE_DIRECTORY)
        save_modules(self.module, directory / MODULES_FILE)
        return sums


def _linked(twin: Path, directory: Path) -> dict[str, str]:
    """Link the backbone's files of a saved encoder; return their SHA-256, or nothing if it is not there."""
    inside = f"{BACKBONE_DIRECTORY}/"
    try:
        sums: dict[str, str] = json.loads((twin / SUMS_FILE).read_bytes())
        shutil.copytree(twin / inside, directory / inside, copy_function=_link)
    except OSError:
        # Another process may be removing the twin.
        shutil.rmtree(directory / inside, ignore_errors=True)
        return {}

    return {name: digest for name, digest in sums.items() if name.startswith(inside)}


def _link(source: str, target: str) -> None:
    """Link a file, or copy it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
