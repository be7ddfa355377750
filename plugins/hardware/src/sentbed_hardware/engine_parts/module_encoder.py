"""The base class of encoders whose weights are in a torch module, for all engines."""

from __future__ import annotations

import copy
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
        """Write the backbone's files, and the file with the weights of pooler and head, into `directory`."""
        self.backbone.save(directory / BACKBONE_DIRECTORY)
        save_modules(self.module, directory / MODULES_FILE)
