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

    Adapters are merged. A prompt goes into the tokenizer, since the prompts of sentence-transformers have no
    suffix: then texts that are cut, that are empty, or that hold the name of a special token have other
    vectors. What differs is printed, and stands in the folder's `README.md`.

    Source: the folder layout of sentence-transformers 5.
    """

    name: ClassVar[str] = "sentence-transformers"

    verify: bool = True
    """Load what was written and compare its vectors with the encoder's; takes the memory of the model once
    more. Token ids are always compared."""

    def write(self, encoder: Encoder, directory: Path) -> Iterable[str]:
        """Write the folder, and return its differences from the encoder.

        Raises:
            ModelError: if stock modules cannot give the encoder's vectors.
            OtherVectorsError: if they should but do not.
        """
        require_exportable(encoder)
        from sentbed_interop._torch.sentence_transformers_folder import write_folder

        return write_folder(encoder, directory, self.verify)
