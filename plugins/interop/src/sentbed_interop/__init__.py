"""Export of encoders to other libraries, and import from them."""

from __future__ import annotations

from sentbed import hookimpl
from sentbed.protocols import Exporter, Importer, LazyCommand

sentbed_api = "2.0"


@hookimpl
def exporters() -> list[type[Exporter]]:
    """Return the exporters of this distribution."""

    from sentbed_interop.hub import ToHub
    from sentbed_interop.onnx import ToONNX
    from sentbed_interop.sentence_transformers import ToSentenceTransformers

    return [ToHub, ToONNX, ToSentenceTransformers]


@hookimpl
def importers() -> list[type[Importer]]:
    """Return the importers of this distribution."""

    from sentbed_interop.from_peft import FromPEFT
    from sentbed_interop.from_sentence_transformers import FromSentenceTransformers
    from sentbed_interop.from_simcse import FromSimCSE

    return [FromPEFT, FromSentenceTransformers, FromSimCSE]


@hookimpl
def commands() -> dict[str, LazyCommand]:
    """Return the commands `export` and `import`."""
    return {
        "export": LazyCommand(
            "sentbed_interop.exchange_commands:export", "Write an encoder for another library."
        ),
        "import": LazyCommand(
            "sentbed_interop.exchange_commands:import_", "Make an encoder of what another library wrote."
        ),
    }
