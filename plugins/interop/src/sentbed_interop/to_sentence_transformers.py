"""The exporter `sentence-transformers`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import attrs
from sentbed import RunError
from sentbed.protocols import Exporter

from sentbed_interop.exportable_encoders import require_exportable

if TYPE_CHECKING:
    from sentbed import Encoder


@attrs.frozen
class ToSentenceTransformers(Exporter):
    """A folder of stock modules that sentence-transformers 5 and 6 load, with the same vectors.

    Adapters are merged. A prompt before the text becomes the folder's default prompt; any other prompt is
    refused. With a prompt, texts that are truncated, that are empty, or that end in white space have other
    vectors. The differences are printed, and are listed in the folder's `README.md`.

    Source: the folder layout of sentence-transformers 5.
    """

    name: ClassVar[str] = "sentence-transformers"

    def check(self) -> Iterator[str]:
        """Yield a message if the library is missing."""
        if importlib.util.find_spec("sentence_transformers") is None:
            yield (
                "the exporter `sentence-transformers` needs `sentence-transformers`, not installed here; "
                "run `pip install 'sentbed-interop[sentence-transformers]'`"
            )

    def write(self, encoder: Encoder, directory: Path) -> Iterable[str]:
        """Write the folder, and return notes on how it differs from the encoder.

        Raises:
            RunError: if the library is missing.
            ModelError: if stock modules cannot give the encoder's vectors.
            OtherVectorsError: if stock modules should give these vectors, but do not.
        """
        for problem in self.check():
            raise RunError(problem)
        require_exportable(encoder)
        from sentbed_interop._torch.sentence_transformers_folder import write_folder

        return write_folder(encoder, directory)
