"""The base class of encoders whose weights are in a torch module, for all engines."""

from __future__ import annotations

import copy
import os
import shutil
from pathlib import Path
from typing import Self

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

    def save(self, directory: Path) -> None:
        """Write the backbone's files, and the file with the weights of pooler and head, into `directory`.

        `twin` is the directory of a saved encoder with the same backbone, or None. If it is set, the backbone's
        files are linked from there.
        """
        backbone = directory / BACKBONE_DIRECTORY
        if self.twin is None or not _link_files(
            self.twin / BACKBONE_DIRECTORY, backbone
        ):
            self.backbone.save(backbone)
        save_modules(self.module, directory / MODULES_FILE)


def _link_files(source: Path, target: Path) -> bool:
    """Link the files below a directory into another; return False if they cannot be read."""
    try:
        shutil.copytree(source, target, copy_function=_link)
    except OSError:
        # Another process may be removing the source.
        shutil.rmtree(target, ignore_errors=True)
        return False
    return True


def _link(source: str, target: str) -> None:
    """Make a hard link to a file, or copy it if the file system does not support links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
