"""The exporter `sentence-transformers`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import attrs
from sentbed.protocols import Exporter

from sentbed_interop.exportable_encoders import require_exportable

if TYPE_CHECKING:
    from sentbed import Encoder


@attrs.frozen
class ToSentenceTransformers(Exporter):
    """A folder of stock modules that sentence-transformers 5 and 6 load, with the same vectors.

    Adapters are merged. A prompt becomes a part of the tokenizer, since prompts of sentence-transformers have no
    suffix. With it, texts that are truncated, that are empty, or that contain the name of a special token have
    other vectors. The differences are printed, and are listed in the folder's `README.md`.

    Source: the folder layout of sentence-transformers 5.
    """

    name: ClassVar[str] = "sentence-transformers"

    verify: bool = True
    """Whether to load the folder and compare its vectors with the encoder's, which takes the memory of the model
    once more. Token ids are always compared."""

    def write(self, encoder: Encoder, directory: Path) -> Iterable[str]:
        """Write the folder, and return notes on how it differs from the encoder.

        Raises:
            ModelError: if stock modules cannot give the encoder's vectors.
            OtherVectorsError: if stock modules should give these vectors, but do not.
        """
        require_exportable(encoder)
        from sentbed_interop._torch.sentence_transformers_folder import write_folder

        return write_folder(encoder, directory, self.verify)
