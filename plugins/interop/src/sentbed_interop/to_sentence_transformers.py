"""The exporter `sentence-transformers`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import attrs
from sentbed import RunError
from sentbed.protocols import Exporter

from sentbed_interop.exportable_encoders import (
    library_problems,
    require_exportable,
)

if TYPE_CHECKING:
    from sentbed import Encoder


@attrs.frozen
class ToSentenceTransformers(Exporter):
    """A folder that sentence-transformers saves, of its own modules, with the same vectors.

    Adapters are merged. A prompt before the text becomes the folder's default prompt; any other prompt is
    refused. With a prompt, texts that are truncated, that are empty, or that end in white space have other
    vectors. The differences are printed, and are listed in the folder's `README.md`.
    """

    name: ClassVar[str] = "sentence-transformers"

    def check(self) -> Iterator[str]:
        """Yield a message if the library is missing."""
        yield from library_problems("exporter")

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
