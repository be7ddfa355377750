"""A table of token vectors as a backbone: where the table comes from, its tokenizer and its module."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from sentbed import ModelError, locate
from sentbed.helpers import foreign, sha256
from sentbed.protocols import BuildContext, BuiltBackbone, TokenIds, TokenStates
from sentbed_common import in_safetensors

from sentbed_backbones._torch.built_transformer import quiet
from sentbed_backbones._torch.loading import HEADS, name_of_embeddings
from sentbed_backbones._torch.tokenizer import BulkTokenizer, tokenizing
from sentbed_backbones._torch.tokenizer_loading import load_tokenizer
from sentbed_backbones._torch.train_tokenizer import train_wordpiece
from sentbed_backbones._torch.word_vectors import read_word_vectors, word_tokenizer
from sentbed_backbones.hub_models import fetch
from sentbed_backbones.model_file_checks import is_local, problems_of
from sentbed_backbones.static import (
    TABLE_FILE,
    TOKENIZER_FILE,
    Static,
    table_directory,
)
from sentbed_backbones.strangers_files import require_bounded_tokenizer

ROWS = "embedding.weight"
"""Name of the table in a file of StaticEmbedding, and in that of a saved backbone."""
MODEL2VEC = "embeddings"
"""Its name in a file of model2vec, which may have the row (`mapping`) and the weight (`weights`) of each token
beside it."""

LONGEST = 1 << 20
"""Tokens of the longest text, where nothing limits them."""


def build(parameters: Static, context: BuildContext) -> BuiltStatic:
    """Load or initialise a table with its tokenizer.

    Raises:
        ModelError: if they are missing, damaged, or do not fit together.
    """
    if context.saved is not None:
        rows = _read_table(context.saved)
        tokenizer = load_tokenizer(context.saved, False)
        known = context.sums.get(TABLE_FILE) or sha256(context.saved / TABLE_FILE)
        return BuiltStatic(parameters, rows, tokenizer, {"sha256": known})
    if parameters.file is not None:
        file = locate(parameters.file)
        words, rows = read_word_vectors(file, parameters.most_words)
        tokenizer = word_tokenizer(words, parameters.lowercase)
        return BuiltStatic(parameters, rows, tokenizer, {"sha256": sha256(file)})
    if parameters.model is None:
        tokenizer = train_wordpiece(
            context.texts(), parameters.vocab_size, parameters.lowercase
        )
        rows = torch.randn(len(tokenizer), parameters.width)
        return BuiltStatic(parameters, rows, tokenizer, {"init": "random"})

    directory, origin = _model_directory(parameters)
    table = table_directory(directory)
    if table is not None:
        rows = _read_table(table)
        tokenizer = _read_tokenizer(table)
        origin["sha256"] = sha256(table / TABLE_FILE)
        weights_directory = None
    else:
        tokenizer = load_tokenizer(directory, False)
        rows = _input_embeddings(directory)
        origin["sha256"] = _hashes(directory)
        weights_directory = directory
    if parameters.init == "random":
        rows = torch.randn_like(rows)
    built = BuiltStatic(parameters, rows, tokenizer, origin)
    built.weights_directory = weights_directory
    return built


class Table(torch.nn.Module):
    """Ids `(batch, length)` -> their rows of the table, `(batch, length, width)`.

    The number behind the last row stands for a text without a token; its row is zero and is not trained.
    """

    def __init__(self, rows: torch.Tensor) -> None:
        super().__init__()
        count, width = rows.shape
        self.embedding = torch.nn.Embedding(
            count + 1, width, padding_idx=count, _weight=torch.zeros(count + 1, width)
        )
        with torch.no_grad():
            self.embedding.weight[:count] = rows

    @property
    def rows(self) -> torch.Tensor:
        """The table without its last row."""
        return self.embedding.weight.detach()[:-1]

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None
    ) -> TokenStates:
        """Return the rows of the tokens."""
        return TokenStates(self.embedding(input_ids), attention_mask)


class StaticTokenizer(BulkTokenizer):
    """A tokenizer of a table: special tokens and unknown words may be left out.

    A text of which nothing is left has one token, whose number is that of the table's rows.
    """

    def __init__(
        self, original: Any, rows: int, special_tokens: bool, leaves_out_unknown: bool
    ) -> None:
        super().__init__(original, embeddings=rows)
        self.rows = rows
        self.special_tokens = special_tokens
        self.unknown_id: int | None = None
        if leaves_out_unknown:
            self.unknown_id = int(original.unk_token_id)

    @property
    def fingerprint(self) -> str:
        """A hash of the tokenizer, and of what is left out."""
        settings = (
            f"{super().fingerprint} {self.special_tokens} {self.unknown_id} {self.rows}"
        )
        return hashlib.sha256(settings.encode()).hexdigest()

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Tokenise, truncated to `max_length` tokens.

        Raises:
            ModelError: if a text has a token for which the table has no row.
        """
        with tokenizing():
            self._fast.enable_truncation(max_length)
            encodings = self._fast.encode_batch_fast(
                self._mapped(texts), add_special_tokens=self.special_tokens
            )
        return self._token_ids(encodings)

    def _token_ids(self, encodings: Sequence[tokenizers.Encoding]) -> TokenIds:
        lengths = np.fromiter(map(len, encodings), np.int64, len(encodings))
        rows = (encoding.ids for encoding in encodings)
        ids = np.fromiter(chain.from_iterable(rows), np.uint32, int(lengths.sum()))
        if self.unknown_id is not None:
            known = ids != self.unknown_id
            texts = np.repeat(np.arange(len(lengths)), lengths)
            ids = ids[known]
            lengths = np.bincount(texts[known], minlength=len(lengths))
        self._require_embeddings(ids)

        (empty,) = np.nonzero(lengths == 0)
        starts = np.cumsum(lengths) - lengths
        ids = np.insert(ids.astype(np.int32), starts[empty], self.rows)
        lengths[empty] = 1
        return TokenIds(ids, np.concatenate([[0], np.cumsum(lengths)]))


class BuiltStatic(BuiltBackbone):
    """A table and its tokenizer."""

    tokenizer: StaticTokenizer
    module: Table

    def __init__(
        self,
        parameters: Static,
        rows: torch.Tensor,
        tokenizer: Any,
        origin: Mapping[str, Any],
    ) -> None:
        count, self.width = rows.shape
        self.parameters = parameters
        self.tokenizer = StaticTokenizer(
            tokenizer,
            count,
            parameters.special_tokens,
            leaves_out_unknown=parameters.file is not None,
        )
        self.module = Table(rows)
        self.module.requires_grad_(not parameters.freeze)
        self.max_length = LONGEST
        # The gradient of each pass has all rows, each about a quarter as dear as a padded token.
        self.training_pass_cost = count // 4
        self.origin = origin

    @property
    def protocol(self) -> dict[str, Any]:
        """The precision of the vectors, whatever that of the runtime: there is nothing to compute faster."""
        return {"precision": "fp32"}

    def inference(
        self, module: Table, dtype: torch.dtype, traceable: bool = False
    ) -> Table:
        """Return a copy of the table for encoding, in fp32.

        Raises:
            ModelError: if the runtime wants int8, which is for products of matrices.
        """
        if dtype == torch.int8:
            raise ModelError(
                "the backbone `static` has no products of matrices, which int8 is for; use "
                '`precision = "auto"`'
            )
        copy = Table(module.rows).to(module.embedding.weight.device)
        return copy.requires_grad_(False).eval()

    def save(self, directory: Path) -> None:
        """Write table and tokenizer, as StaticEmbedding of sentence-transformers reads them."""
        directory.mkdir(parents=True, exist_ok=True)
        with quiet():
            self.tokenizer.save(directory)
        rows = self.module.rows.cpu().contiguous()
        save_file({ROWS: rows}, directory / TABLE_FILE)


def _model_directory(parameters: Static) -> tuple[Path, dict[str, Any]]:
    """Return the directory of the recipe's `model`, with weights as safetensors, and what is to be noted."""
    assert parameters.model is not None
    origin: dict[str, Any] = {"model": parameters.model, "init": parameters.init}
    if is_local(parameters.model):
        directory = locate(parameters.model)
    else:
        directory = fetch(parameters.model, parameters.revision).directory
        origin["commit"] = directory.name
    if table_directory(directory) is not None:
        return directory, origin
    for problem in problems_of(directory, True, False):
        raise ModelError(problem)
    directory, pickled = in_safetensors(directory, True, f"`{parameters.model}`")
    if pickled:
        origin["pickled_sha256"] = dict(pickled)
    return directory, origin


def _hashes(directory: Path) -> dict[str, str]:
    return {file.name: sha256(file) for file in sorted(directory.glob("*.safetensors"))}


def _read_tokenizer(directory: Path) -> Any:
    """Return the tokenizer of a folder of StaticEmbedding as it is written, as one of transformers."""
    file = directory / TOKENIZER_FILE
    if not file.is_file():
        raise ModelError(
            f"`{directory}` holds no `{TOKENIZER_FILE}`; fetch the model again"
        )
    require_bounded_tokenizer(directory)
    with foreign(ModelError, f"`{file}` cannot be read", "fetch the model again"):
        written = tokenizers.Tokenizer.from_file(str(file))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=written)


def _read_table(directory: Path) -> torch.Tensor:
    """Return the table of a folder of StaticEmbedding or model2vec, fp32 `(tokens, width)`."""
    file = directory / TABLE_FILE
    if not file.is_file():
        raise ModelError(
            f"`{directory}` holds no `{TABLE_FILE}`; convert pickled weights on a machine where you trust them"
        )
    with (
        foreign(ModelError, f"`{file}` cannot be read", "fetch the model again"),
        safe_open(file, "pt") as weights,
    ):
        tensors = {name: weights.get_tensor(name) for name in weights.keys()}  # noqa: SIM118 - it is no mapping
    if ROWS in tensors:
        return _required(tensors[ROWS], file)
    if MODEL2VEC not in tensors:
        names = ", ".join(f"`{name}`" for name in sorted(tensors)) or "nothing"
        raise ModelError(
            f"`{file}` holds {names}, expected `{ROWS}` or `{MODEL2VEC}`; name a folder of StaticEmbedding or "
            "model2vec, or a model of transformers"
        )
    rows = _required(tensors[MODEL2VEC], file)
    if "mapping" in tensors:
        rows = _mapped_rows(rows, tensors["mapping"].long(), file)
    if "weights" in tensors:
        scales = tensors["weights"].float()
        if scales.shape != rows.shape[:1]:
            raise ModelError(
                f"`{file}` has {tuple(scales.shape)} `weights` for {len(rows)} tokens; fetch the model again"
            )
        # In this order and precision sentence-transformers rounds them.
        rows = (rows * scales[:, None]).to(tensors[MODEL2VEC].dtype).float()
    return _required(rows, file)


def _mapped_rows(rows: torch.Tensor, mapping: torch.Tensor, file: Path) -> torch.Tensor:
    """Return the row of each token, by `mapping` `(tokens,)`."""
    if len(mapping) and not 0 <= int(mapping.min()) <= int(mapping.max()) < len(rows):
        raise ModelError(
            f"`mapping` in `{file}` names rows beyond the {len(rows)} of the table; fetch the model again"
        )
    return rows[mapping]


def _required(rows: torch.Tensor, file: Path) -> torch.Tensor:
    """Return a table in fp32. Raises `ModelError` if it is not one of finite numbers."""
    if rows.ndim != 2 or not rows.is_floating_point() or not len(rows):
        raise ModelError(
            f"the table in `{file}` is {rows.dtype} {tuple(rows.shape)}, expected floating point "
            "(tokens, width); fetch the model again"
        )
    if not torch.isfinite(rows).all():
        raise ModelError(
            f"the table in `{file}` has NaN or infinite values: the file is damaged; fetch the model again"
        )
    return rows.float()


def _input_embeddings(directory: Path) -> torch.Tensor:
    """Return the input embeddings of a model of transformers, fp32; no other weight is read."""
    advice = "check that its files are complete"
    with quiet(), foreign(ModelError, f"`{directory}` cannot be loaded", advice):
        config = transformers.AutoConfig.from_pretrained(directory)
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            model = transformers.AutoModel.from_config(config)
    name = name_of_embeddings(model)
    for file, key in _keys(directory):
        if name is not None and f".{key}".endswith(f".{name}"):
            return _read_rows(file, key)
    if getattr(config, "tie_word_embeddings", False):
        for file, key in _keys(directory):
            if key in HEADS:
                return _read_rows(file, key)
    raise ModelError(
        f"the weights in `{directory}` have no input embeddings (`{name}`); fetch the model again"
    )


def _keys(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield file and name of each weight."""
    for file in sorted(directory.glob("*.safetensors")):
        with (
            foreign(ModelError, f"`{file}` cannot be read", "fetch the model again"),
            safe_open(file, "pt") as weights,
        ):
            names = list(weights.keys())
        for name in names:
            yield file, name


def _read_rows(file: Path, key: str) -> torch.Tensor:
    with safe_open(file, "pt") as weights:
        return _required(weights.get_tensor(key), file)
