"""A built backbone that is a table of token vectors, with its module and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from sentbed.protocols import BuiltBackbone, TokenStates
from torch import Tensor, nn

from sentbed_backbones._torch.quiet_transformers import quiet
from sentbed_backbones._torch.token_table import ROWS, TokenTable
from sentbed_backbones._torch.tokenizer import BulkTokenizer
from sentbed_backbones.token_table_folders import TABLE_FILE

LONGEST = 1 << 20
"""Largest number of tokens of a text; the table itself sets no limit."""


class Table(nn.Module):
    """Module that looks up ids `(batch, length)` in a table, `(batch, length, width)`.

    One more row stands for a text without tokens: its id is the number of the table's rows. The row is zero and
    is not trained.
    """

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        count, width = rows.shape
        self.embedding = nn.Embedding(
            count + 1, width, padding_idx=count, _weight=torch.zeros(count + 1, width)
        )
        with torch.no_grad():
            self.embedding.weight[:count] = rows

    @property
    def rows(self) -> Tensor:
        """The table without the row for a text without tokens."""
        return self.embedding.weight.detach()[:-1]

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> TokenStates:
        """Return the rows of the tokens as states."""
        states = self.embedding(input_ids)
        if self.training:
            # `padding_idx` does not suffice: the engine on JAX takes it out of every embedding.
            is_token = input_ids != self.embedding.num_embeddings - 1
            states = states * is_token[..., None]

        return TokenStates(states, attention_mask)


class BuiltStatic(BuiltBackbone):
    """A built backbone: a table of token vectors and its tokenizer."""

    tokenizer: BulkTokenizer
    module: Table

    def __init__(self, table: TokenTable) -> None:
        count, self.width = table.rows.shape
        self.tokenizer = BulkTokenizer(
            table.tokenizer, embeddings=count, special_tokens=False, empty_id=count
        )
        self.module = Table(table.rows)

        self.weights_directory = table.weights_directory
        self.max_length = LONGEST

        # The gradient of each pass covers all rows; a row costs about a quarter of a padded token.
        self.training_pass_cost = BuiltBackbone.training_pass_cost + count // 4
        self.origin = table.origin

    @property
    def protocol(self) -> dict[str, Any]:
        """The precision of vectors: always fp32, since a lower precision would have nothing to make faster."""
        return {"precision": "fp32"}

    def inference(
        self,
        module: Table,
        dtype: torch.dtype,
        traceable: bool = False,
    ) -> Table:
        """Return a copy of the table for encoding, in fp32."""
        copy = Table(module.rows).to(module.embedding.weight.device)
        return copy.requires_grad_(False).eval()

    def save(self, directory: Path) -> None:
        """Write table and tokenizer, as StaticEmbedding of sentence-transformers reads them."""
        directory.mkdir(parents=True, exist_ok=True)
        with quiet():
            self.tokenizer.save(directory)

        rows = self.module.rows.cpu().contiguous()
        try:
            save_file({ROWS: rows}, directory / TABLE_FILE)
        except SafetensorError as error:
            # safetensors wraps the system's error. As an `OSError`, a full disk is not mistaken for a bug.
            raise OSError(str(error)) from error
