"""Export of encoders to other libraries, and import from them."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl


@hookimpl
def exporters() -> Mapping[str, str]:
    """Return the exporters of this distribution."""
    return {
        "hub": "sentbed_interop.to_hub:ToHub",
        "onnx": "sentbed_interop.to_onnx:ToONNX",
        "sentence-transformers": "sentbed_interop.to_sentence_transformers:ToSentenceTransformers",
    }


@hookimpl
def importers() -> Mapping[str, str]:
    """Return the importers of this distribution."""
    return {
        "sentence-transformers": "sentbed_interop.from_sentence_transformers:FromSentenceTransformers",
    }


@hookimpl
def commands() -> Mapping[str, str]:
    """Return the commands `export` and `import`."""
    return {
        "export": "sentbed_interop.export_and_import_commands:export",
        "import": "sentbed_interop.export_and_import_commands:import_",
    }
