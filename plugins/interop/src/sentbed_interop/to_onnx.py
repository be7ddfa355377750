"""The exporter `onnx`, for onnxruntime."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import attrs
from attrs.validators import and_, ge, le
from sentbed import ModelError
from sentbed.errors import listed
from sentbed.protocols import Exporter

from sentbed_interop.exportable_encoders import require_exportable

if TYPE_CHECKING:
    from sentbed import Encoder

PACKAGES = ("onnx", "onnxruntime", "onnxscript")


@attrs.frozen
class ToONNX(Exporter):
    """An ONNX graph that onnxruntime runs in any of its languages, without torch and sentbed.

    `model.onnx` takes `input_ids` and `attention_mask`, int64 `(batch, length)`, padded on the right, and
    gives `sentence_embedding`, fp32 `(batch, width)`. It computes backbone, pooler and head, with adapters
    merged, for batches of any size and length. Weights of more than 2 GB are in `model.onnx.data`, beside the
    graph. The folder also has the tokenizer, and a `README.md` with code that encodes texts.

    onnxruntime runs the graph on batches of many shapes, and its vectors are compared with the encoder's: a
    difference of more than 1e-4 of the largest value is an error.
    """

    name: ClassVar[str] = "onnx"

    opset: int = attrs.field(default=20, validator=and_(ge(18), le(23)))
    """Version of ONNX's operators, 18 to 23. The runtime that reads the graph must support it."""

    def check(self) -> Iterator[str]:
        """Yield a message if packages are missing."""
        missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        if missing:
            yield (
                f"the exporter `onnx` needs {listed(missing)}, not installed "
                "here; run `pip install 'sentbed-interop[onnx]'`"
            )

    def write(self, encoder: Encoder, directory: Path) -> None:
        """Write graph, tokenizer and `README.md` into `directory`.

        Raises:
            ModelError: if packages are missing, if the backbone's weights are below fp32, if a part cannot be
                traced, or if the graph gives other vectors.
        """
        for problem in self.check():
            raise ModelError(problem)
        require_exportable(encoder)
        from sentbed_interop._torch.onnx_folder import export

        export(encoder, directory, self.opset)
