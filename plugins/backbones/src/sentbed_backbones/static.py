"""The backbone `static`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs
from attrs.validators import ge
from sentbed import ModelId
from sentbed.protocols import (
    Backbone,
    BuildContext,
    BuiltBackbone,
)

from sentbed_backbones.model_file_checks import (
    is_local,
    problems_of,
    problems_of_model,
)
from sentbed_backbones.token_table_folders import table_directory

if TYPE_CHECKING:
    from sentbed_backbones._torch.token_table import TokenTable


@attrs.frozen(kw_only=True)
class Static(Backbone):
    """A table of token vectors: a model's input embeddings, StaticEmbedding or model2vec.

    The state of a token is its row, whatever the tokens around it. There are no positions and no attention, so
    texts may have any length. With the pooler `mean`, this is StaticEmbedding of sentence-transformers: special
    tokens ([CLS], </s>) are no tokens of a text, and a text without tokens has the zero vector.
    """

    name = "static"
    offers = frozenset({"bidirectional"})
    heeds = frozenset()

    model: ModelId | None = None
    """A model whose input embeddings become the table, or a model that is a table: StaticEmbedding of
    sentence-transformers, or model2vec. A hub id, a local directory (`./my-bert`) or `pkg:PACKAGE/path`."""
    revision: str | None = None
    """Commit, tag or branch of a hub id; only a commit is reproducible."""
    init: Literal["pretrained", "random"] = "pretrained"
    """`random`: rows are drawn from N(0, 1). The tokenizer and the table's size are the model's. Without a
    `model`, the tokenizer is trained on the texts of the stages (if there is no stage, of the evaluations), and
    rows have `width` numbers."""
    width: int = attrs.field(default=256, validator=ge(1))
    """Number of components of a random row, if there is no `model`."""
    vocab_size: int = attrs.field(default=8192, validator=ge(100))
    """Largest vocabulary of a tokenizer trained on the recipe's texts."""
    freeze: bool = False
    """Whether the table is not trained."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without loading."""
        if self.model is None:
            if self.init == "pretrained":
                yield 'the backbone has no `model`; name one, or set `init = "random"`'

            return

        yield from problems_of_model(
            self.model, self.revision, self._problems_of_directory
        )

    def _problems_of_directory(self, directory: Path) -> Iterator[str]:
        """Yield the problems of a model of transformers; a table is checked when it is read."""
        # Weights are needed for random rows too, since they say the size of the table.
        if table_directory(directory) is None:
            yield from problems_of(directory, True, False)

    def remarks(self) -> Iterator[str]:
        """Yield whether the hub was asked for a hub id.

        Raises:
            ModelError: if the hub refuses the model.
        """
        if self.model is not None and not is_local(self.model):
            from sentbed_backbones.hub_models import hub_remark

            yield hub_remark(self.model, self.revision, True)

    @property
    def from_files(self) -> bool:
        """Whether the table is read."""
        return self.init == "pretrained"

    @property
    def pretrained(self) -> bool:
        """Whether the table is read."""
        return self.init == "pretrained"

    def build(self, context: BuildContext) -> BuiltBackbone:
        """Load or initialise the table.

        Raises:
            ModelError: if table or tokenizer are missing, damaged, or do not fit together.
        """
        from sentbed_backbones._torch.static import BuiltStatic

        built = BuiltStatic(self._table(context))
        built.module.requires_grad_(not self.freeze)
        return built

    def _table(self, context: BuildContext) -> TokenTable:
        """Return the table and its tokenizer, from the saved encoder or from the source that the fields name."""
        from sentbed_backbones._torch import token_table

        if context.saved is not None:
            return token_table.from_saved(context.saved)

        if self.model is not None:
            return token_table.from_model(
                self.model, self.revision, self.init == "random"
            )

        return token_table.from_texts(context.texts(), self.vocab_size, self.width)
