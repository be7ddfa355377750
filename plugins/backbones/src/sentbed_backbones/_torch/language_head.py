"""Language-modelling heads, which turn states of the last layer into logits of the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import ModelError
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

from sentbed_backbones._torch.stored_weights import stored_weights

BLANK = "_"
"""Token that replaces masked tokens if the tokenizer has no mask token, as in LLM2Vec's code."""
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""Names of a norm's weights in old files, and their names today."""
LOGITS = 2**24
"""Largest number of logits computed at a time."""


class FixedStates(nn.Module):
    """Takes the place of the transformer under a head: whatever its arguments, it returns `states`."""

    states: Tensor

    @property
    def decoder(self) -> FixedStates:
        """This module itself, since OPT's head calls the decoder of its transformer."""
        return self

    def forward(self, *_: Any, **__: Any) -> BaseModelOutputWithPastAndCrossAttentions:
        """Return the states."""
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=self.states)


class LanguageHead:
    """The head of a model of transformers, which runs in fp32 on the host, with the model's own code.

    `model` is the transformer without head, `loader` the auto class of transformers that has a head. Weights
    that the head shares with the input embeddings are copied from `model`, which may have been trained. The
    head's other weights are read from the directory `files()`, which is None for a model with random weights.

    With `live`, shared weights in fp32 are not copied, so that training the head also trains `model`.

    Raises:
        ModelError: if the files lack a weight of the head.
    """

    def __init__(
        self,
        model: Any,
        loader: Any,
        files: Callable[[], Path | None],
        trust_remote_code: bool = False,
        live: bool = False,
    ) -> None:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            whole = loader.from_config(
                model.config, dtype=torch.float32, trust_remote_code=trust_remote_code
            )

        self.fixed_states = FixedStates()
        self.last = whole.get_output_embeddings()
        words = whole.get_input_embeddings().weight
        setattr(whole, whole.base_model_prefix, self.fixed_states)

        names: dict[int, list[str]] = {}
        for name, parameter in whole.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)

        shared = names.pop(id(words), [])
        if shared:
            weight = model.get_input_embeddings().weight
            if not live or weight.dtype != torch.float32:
                copied = weight.detach().to("cpu", torch.float32, copy=True)
                weight = nn.Parameter(copied, requires_grad=False)

            _set_weight(whole, shared, weight)

        if names:
            _read_weights(whole, list(names.values()), files())

        for name, buffer in whole.named_buffers():
            if buffer.is_meta:
                raise ModelError(
                    f"`{type(whole).__name__}` has the buffer `{name}` in its head, which no file holds; "
                    "choose another model for its predictions"
                )

        self.model = whole.eval()

    def __call__(self, states: Tensor) -> Tensor:
        """Return the logits `(n, tokens)` of states `(n, width)` in fp32, with gradient."""
        self.fixed_states.states = states[:, None]
        ids = torch.zeros(len(states), 1, dtype=torch.long, device=states.device)
        logits: Tensor = self.model(input_ids=ids).logits[:, 0].float()
        return logits

    def logits(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the logits `(n, tokens)` of states `(n, width)`."""
        inputs = torch.from_numpy(np.ascontiguousarray(states, np.float32))
        rows_at_a_time = max(1, LOGITS // int(self.model.config.vocab_size))
        with torch.inference_mode():
            parts = [self(rows).numpy() for rows in inputs.split(rows_at_a_time)]

        return np.concatenate(parts)

    def output_embedding(self) -> NDArray[np.float32]:
        """Return the weights `(tokens, width)` of the last linear layer, one row per logit.

        The width is that of the states, unless the model has further layers between states and this layer.
        """
        if self.last is None:
            raise ModelError(
                f"`{type(self.model).__name__}` does not say which weights are its output embedding "
                "(`get_output_embeddings`); choose another model"
            )

        weights: NDArray[np.float32] = self.last.weight.detach().float().numpy()
        return weights


class TrainableHead(nn.Module):
    """A `LanguageHead` as a torch module, for training; see `BuiltBackbone.prediction_head`."""

    def __init__(
        self,
        head: LanguageHead,
        tokenizer: Any,
        shift: int,
    ) -> None:
        super().__init__()
        self.head = head
        self.model = head.model
        self.tokens = int(self.model.config.vocab_size)
        self.shift = shift
        self.mask_id = mask_id_of(tokenizer)
        self.special_ids = sorted(set(tokenizer.all_special_ids))

    def forward(self, states: Tensor) -> Tensor:
        """Return the logits `(n, tokens)` of states `(n, width)` in fp32."""
        return self.head(states)


def mask_id_of(tokenizer: Any) -> int:
    """Return the id of the mask token or, without one, of `_`. Raises `ModelError` if there is neither."""
    if tokenizer.mask_token_id is not None:
        return int(tokenizer.mask_token_id)

    blank_id = tokenizer.get_vocab().get(BLANK)
    if blank_id is None:
        raise ModelError(
            f"the tokenizer has neither a mask token nor a token {BLANK!r}, by which tokens are masked; take "
            "another model, or add a mask token to its tokenizer"
        )

    return int(blank_id)


class Vocabulary(Sequence[str]):
    """Sequence of the texts of all tokens, decoded on access; an id without a token has an empty text."""

    def __init__(self, tokenizer: Any, size: int) -> None:
        self.tokenizer, self.size = tokenizer, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(self.size))]
        if not -self.size <= place < self.size:
            raise IndexError(place)

        return self.tokenizer.decode(
            [place % self.size], clean_up_tokenization_spaces=False
        )


def _set_weight(
    whole: Any,
    names: Sequence[str],
    weight: Tensor,
) -> None:
    """Set a model's weight under all its names. Raises `ModelError` if the shape is not the model's."""
    for name in names:
        expected = tuple(whole.get_parameter(name).shape)
        if tuple(weight.shape) != expected:
            raise ModelError(
                f"`{name}` has the shape {tuple(weight.shape)}, and by the model's `config.json` it should "
                f"have {expected}; fetch the model again"
            )

        owner, _, attribute = name.rpartition(".")
        setattr(whole.get_submodule(owner), attribute, weight)


def _read_weights(
    whole: Any,
    weights: Sequence[list[str]],
    directory: Path | None,
) -> None:
    """Read weights from a model's files and set them in fp32; each item of `weights` has a weight's names.

    Raises:
        ModelError: if the files lack a weight.
    """
    where = "a model with random weights"
    stored: dict[str, Tensor] = {}
    if directory is not None:
        where = f"`{directory}`"
        stored = _stored(directory, set(chain(*weights)))

    for names in weights:
        present = [name for name in names if name in stored]
        if not present:
            raise ModelError(
                f"{where} has no `{names[0]}`, a weight of the head with which `{type(whole).__name__}` "
                "predicts tokens; take files that were saved with it, or leave out what reads predictions"
            )

        weight = nn.Parameter(stored[present[0]], requires_grad=False)
        _set_weight(whole, names, weight)


def _stored(directory: Path, names: set[str]) -> dict[str, Tensor]:
    """Return the weights with these names in a model's files, in fp32."""
    weights = {}
    stored = stored_weights(directory, lambda key: _new_name(key) in names)
    for key, weight in stored.items():
        weights[_new_name(key)] = weight.float()

    return weights


def _new_name(key: str) -> str:
    """Return the name of a weight today."""
    for was, new in OLD_NAMES.items():
        key = key.replace(was, new)

    return key
