"""The base class of encoders whose weights are in a torch module, for all engines."""

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

from sentbed_hardware.engine_parts.encoder_module import (
    BACKBONE_DIRECTORY,
    MODULES_FILE,
    EncoderModule,
    save_modules,
)


class ModuleEncoder(PlacedEncoder):
    """An encoder whose weights are in a torch module. It reports its widths and saves its weights."""

    def __init__(self, backbone: BuiltBackbone, module: EncoderModule) -> None:
        self.backbone = backbone
        self.module: EncoderModule = module
        self.width = module.width
        self.trained_width = module.trained_width
        self.fitted_on = module.fitted_on
        self.parameter_counts = module.parameter_counts

    def _of(self, module: EncoderModule) -> Self:
        """Return a copy of this encoder with another module."""
        other = copy.copy(self)
        ModuleEncoder.__init__(other, self.backbone, module)
        return other

    def save(self, directory: Path) -> Mapping[str, str]:
        """Write the backbone's files, and the file with the weights of pooler and head, into `directory`.

        `twin` is the directory of a saved encoder with the same backbone, or None. If it is set, the backbone's
        files are linked from there, and their SHA-256 sums are returned by name.
        """
        sums: dict[str, str] = {}
        if self.twin is not None:
            sums = _link_backbone(self.twin, directory)
        if not sums:
            self.backbone.save(directory / BACKBONE_DIRECTORY)
        save_modules(self.module, directory / MODULES_FILE)
        return sums


def _link_backbone(twin: Path, directory: Path) -> dict[str, str]:
    """Link the backbone's files of the saved encoder `twin` into `directory`.

    Returns their SHA-256 sums by name, or nothing if the twin's files cannot be read.
    """
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
    """Make a hard link to a file, or copy it if the file system does not support links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
