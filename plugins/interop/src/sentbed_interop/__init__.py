"""Export of encoders to other libraries, and import from them."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import hookimpl
from sentbed.protocols import Lazy


@hookimpl
def exporters() -> Mapping[str, Lazy]:
    """Return the exporters of this distribution."""
    return {
        "hub": Lazy(
            "sentbed_interop.to_hub:ToHub",
            "A folder for the Hugging Face hub: the encoder, the recipe behind it, and a model card.",
        ),
        "onnx": Lazy(
            "sentbed_interop.to_onnx:ToONNX",
            "An ONNX graph that onnxruntime runs in any of its languages, without torch and sentbed.",
        ),
        "sentence-transformers": Lazy(
            "sentbed_interop.to_sentence_transformers:ToSentenceTransformers",
            "A folder of stock modules that sentence-transformers 5 and 6 load, with the same vectors.",
        ),
    }


@hookimpl
def importers() -> Mapping[str, Lazy]:
    """Return the importers of this distribution."""
    return {
        "sentence-transformers": Lazy(
            "sentbed_interop.from_sentence_transformers:FromSentenceTransformers",
            "A folder of sentence-transformers, of any version, with modules that an encoder supports.",
        ),
    }


@hookimpl
def commands() -> Mapping[str, Lazy]:
    """Return the commands `export` and `import`."""
    return {
        "export": Lazy(
            "sentbed_interop.export_and_import_commands:export",
            "Write an encoder for another library.",
        ),
        "import": Lazy(
            "sentbed_interop.export_and_import_commands:import_",
            "Make an encoder from a model of another library.",
        ),
    }
