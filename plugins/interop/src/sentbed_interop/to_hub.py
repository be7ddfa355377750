"""The exporter `hub`, for the Hugging Face hub."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import attrs
from sentbed import FilePath, ModelError
from sentbed.protocols import Exporter

from sentbed_interop.merged_adapters import save_merged

if TYPE_CHECKING:
    from sentbed import Encoder

README = "README.md"


def _languages(value: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(value)


@attrs.frozen(kw_only=True)
class ToHub(Exporter):
    """A folder for the Hugging Face hub: the encoder, the recipe behind it, and a model card.

    The encoder is written in the format of sentence-transformers. If that library cannot compute it, the
    folder is one for `Encoder.load` instead, and the card says why. If the library would give other vectors,
    nothing is written. The card has the scores and data of the run that trained the encoder. The
    recipe and the card have only the last part of absolute paths. Nothing is uploaded.
    """

    name: ClassVar[str] = "hub"

    run: FilePath | None = None
    """Directory of the run that trained the encoder. By default, the run directory that contains the encoder."""
    license: str | None = None
    """The hub's word for the licence, such as `apache-2.0`. Without it, the card says that a licence is still to
    be chosen, since the base model's weights and the data have terms of their own."""
    language: str | tuple[str, ...] = attrs.field(default=(), converter=_languages)
    """The languages of the texts, as ISO 639 codes (`en`), or `multilingual`. By default, the card names none."""

    def write(self, encoder: Encoder, directory: Path) -> Iterable[str]:
        """Write the encoder, `recipe.toml` and `README.md`; return notes on what differs from the encoder.

        Raises:
            ModelError: if the encoder is not one of the run's, or if the vectors would differ.
            RunError: if the run cannot be read.
        """
        import tomli_w
        from sentbed.helpers import write_atomic

        from sentbed_interop.model_card import ExportFacts, recipe_table, render
        from sentbed_interop.source_run import record_of

        record = record_of(encoder, self.run)
        refused, differences = _write_encoder(encoder, directory)
        recipe = tomli_w.dumps(recipe_table(encoder, record))
        write_atomic(directory / "recipe.toml", recipe)
        facts = ExportFacts(self.license, tuple(self.language), refused, differences)
        write_atomic(directory / README, render(encoder, record, facts))

        if refused is not None:
            return (f"sentence-transformers cannot load it: {refused}",)
        return differences


def _write_encoder(
    encoder: Encoder, directory: Path
) -> tuple[str | None, tuple[str, ...]]:
    """Write the encoder in sentence-transformers' format, or else in sentbed's.

    Return why it is not in sentence-transformers' format (None if it is), and notes on how it differs there.
    """
    from sentbed_interop.other_vectors_error import OtherVectorsError
    from sentbed_interop.to_sentence_transformers import ToSentenceTransformers

    try:
        return None, tuple(ToSentenceTransformers().write(encoder, directory))
    except OtherVectorsError:
        # The library supports the encoder: this is a fault of a component or of the export.
        raise
    except ModelError as error:
        for path in directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        save_merged(encoder, directory)
        return str(error), ()
