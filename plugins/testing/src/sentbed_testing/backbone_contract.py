"""The contract of a backbone. The tested component should be tiny, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from sentbed.helpers import pad
from sentbed.protocols import POOLER_NEEDS, Backbone, BuildContext, BuiltBackbone
from torch import Tensor
from torch.nn import Module
from torch.testing import assert_close

from sentbed_testing.component_contract import ComponentContract, require_known_words
from sentbed_testing.sentences import SENTENCES

MAX_LENGTH = 16
ROWS = 5
"""Number of texts in a batch."""
HARD_TEXTS = ("", "a", "Grüße aus Köln, 東京 und 🙂🙂🙂!", "word " * 100)
"""Texts that a tokenizer must accept: an empty one, a short one, one in several scripts, and one too long."""
FIELDS = {"layers": "layers", "decoder": "decoder_state"}
"""Entry of a backbone's `offers` -> the field of `TokenStates` that holds it."""


def built_backbone(
    component: Backbone,
    needs: frozenset[str] = frozenset(),
    saved: Path | None = None,
) -> BuiltBackbone:
    """Return the built backbone, in eval mode."""
    seed = 0
    if saved is not None:
        seed = 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        backbone = component.build(BuildContext(lambda: SENTENCES, saved, needs))
    backbone.module.eval()
    return backbone


def token_batch(backbone: BuiltBackbone) -> tuple[Tensor, Tensor]:
    """Return token ids and mask of the first sentences, both `(ROWS, length)`, padded on the right."""
    max_length = min(MAX_LENGTH, backbone.max_length)
    tokens = backbone.tokenizer.encode(SENTENCES[:ROWS], max_length)
    batch = pad(tokens, np.arange(ROWS), backbone.tokenizer.pad_id)
    ids = torch.from_numpy(batch.input_ids).long()
    return ids, torch.from_numpy(batch.attention_mask).long()


def real_states(
    module: Module,
    ids: Tensor,
    mask: Tensor,
) -> Tensor:
    """Return the states of all tokens except padding, `(tokens, width)`."""
    with torch.no_grad():
        states: Tensor = module(ids, mask).last_hidden_state
    return states[mask.bool()]


class BackboneContract(ComponentContract):
    """Tests of a backbone."""

    component: ClassVar[Backbone]

    @pytest.fixture
    def backbone(self, component: Backbone) -> BuiltBackbone:
        """The built backbone, in eval mode."""
        return built_backbone(component)

    def test_width(self, backbone: BuiltBackbone) -> None:
        """A built backbone has a width and a maximum length, and its states have that width."""
        assert backbone.width > 0
        assert backbone.max_length > 0

        ids, mask = token_batch(backbone)
        with torch.no_grad():
            states = backbone.module(ids, mask).last_hidden_state

        assert states.shape == (*ids.shape, backbone.width)

    def test_offers(self, component: Backbone) -> None:
        """Its states contain what it offers, if `BuildContext.needs` asks for it."""
        offers = component.offers or frozenset()
        require_known_words(offers, POOLER_NEEDS)
        for need in offers & FIELDS.keys():
            backbone = built_backbone(component, frozenset({need}))
            with torch.no_grad():
                states = backbone.module(*token_batch(backbone))
            assert getattr(states, FIELDS[need]) is not None, need

        if "mask-token" in offers:
            backbone = built_backbone(component, frozenset({"mask-token"}))
            assert backbone.tokenizer.mask_token is not None

    @pytest.mark.parametrize("with_mask", [True, False])
    def test_alone_as_in_a_batch(
        self,
        backbone: BuiltBackbone,
        with_mask: bool,
    ) -> None:
        """A text has the same states alone, with a mask of None or of ones, as in a batch with longer texts."""
        ids, mask = token_batch(backbone)
        together = real_states(backbone.module, ids, mask)
        alone = []
        for row, length in enumerate(mask.sum(1).tolist()):
            text_ids = ids[row : row + 1, :length]
            text_mask = None
            if with_mask:
                text_mask = torch.ones_like(text_ids)
            with torch.no_grad():
                states = backbone.module(text_ids, text_mask)
            alone.append(states.last_hidden_state[0])

        assert_close(torch.cat(alone), together, rtol=1e-4, atol=1e-4)

    def test_saved_and_loaded(
        self,
        component: Backbone,
        backbone: BuiltBackbone,
        tmp_path: Path,
    ) -> None:
        """A saved backbone that is built again gives the same token ids and states."""
        ids, mask = token_batch(backbone)
        states = real_states(backbone.module, ids, mask)
        backbone.save(tmp_path / "backbone")
        loaded = built_backbone(component, saved=tmp_path / "backbone")
        loaded_ids, _ = token_batch(loaded)

        assert_close(loaded_ids, ids)
        assert_close(real_states(loaded.module, ids, mask), states)

    @pytest.mark.parametrize("traceable", [False, True])
    def test_inference(
        self,
        backbone: BuiltBackbone,
        traceable: bool,
    ) -> None:
        """`inference` returns a module that computes the states of the backbone in eval mode."""
        ids, mask = token_batch(backbone)
        states = real_states(backbone.module, ids, mask)
        module = backbone.inference(backbone.module, torch.float32, traceable)
        of_module = real_states(module, ids, mask).float()

        assert_close(of_module, states, rtol=1e-4, atol=1e-4)

    def test_tokenizer_keeps_to_the_length(self, backbone: BuiltBackbone) -> None:
        """Texts are cut to the maximum length, special tokens included, and each is encoded by itself."""
        tokenizer = backbone.tokenizer
        texts = [*SENTENCES[:3], *HARD_TEXTS]
        together = tokenizer.encode(texts, MAX_LENGTH)

        assert len(together) == len(texts)
        assert int(together.offsets[-1]) == len(together.ids)
        assert int(together.lengths.max()) <= MAX_LENGTH

        for row, text in enumerate(texts):
            start, end = together.offsets[row : row + 2]
            alone = tokenizer.encode([text], MAX_LENGTH).ids
            assert alone.tolist() == together.ids[start:end].tolist()

        assert isinstance(tokenizer.pad_id, int)

    def test_truncate(self, backbone: BuiltBackbone) -> None:
        """`truncate` returns whole characters from the beginning of a text."""
        texts = [*SENTENCES[:3], *HARD_TEXTS]
        cut = backbone.tokenizer.truncate(texts, 3)
        for text, beginning in zip(texts, cut, strict=True):
            assert text.startswith(beginning)
            assert "\ufffd" not in beginning
