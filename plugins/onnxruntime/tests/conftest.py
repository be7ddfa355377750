"""What the tests share: encoders with the same weights on PyTorch and on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from sentbed import Encoder
from sentbed.tools import Document, EncoderRecipe, load_plugins, structure
from sentbed_onnxruntime.onnx_runtime import OnnxRuntime
from sentbed_testing import SENTENCES


@attrs.frozen
class SavedEncoder:
    """An encoder on the runtime `cpu`, and the directory that it was saved to."""

    on_cpu: Encoder
    directory: Path

    def load(self, **settings: Any) -> Encoder:
        """Load it on ONNX Runtime."""
        return Encoder.load(self.directory, OnnxRuntime(threads=1, **settings))


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Mapping[str, Any]], SavedEncoder]:
    """Return what builds, fits and saves the encoder of a table `[encoder]`."""

    def make(table: Mapping[str, Any]) -> SavedEncoder:
        plugins = load_plugins()
        recipe, problems = structure(
            dict(table), EncoderRecipe, Document({}), plugins, Path.cwd()
        )
        assert not problems, problems
        engine = plugins.find("runtime", "cpu").cls(threads=1).build()
        engine.seed(8)
        encoder = Encoder.build(recipe, engine, lambda: SENTENCES).fit_transform()
        encoder.save(tmp_path / "encoder")
        return SavedEncoder(encoder, tmp_path / "encoder")

    return make
