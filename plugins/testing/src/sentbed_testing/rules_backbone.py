"""Rules of a backbone, tested on its example, preferably a tiny one with random weights."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed.helpers import pad
from sentbed.protocols import BuildContext, BuiltBackbone, Module, Tensor, TokenStates

from sentbed_testing.component_under_test import Subject
from sentbed_testing.random_token_states import distance, load_torch, seeded
from sentbed_testing.sentences import SENTENCES

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

TOLERANCE = 1e-5
"""Tolerance relative to the largest value for sums over another shape."""
PACKED = 1e-4
"""Tolerance relative to the largest value for another order of the same operations."""
MAX_LENGTH = 16
HARD = ("", "a", "Grüße aus Köln, 東京 und 🙂🙂🙂!", "word " * 100)
"""Texts that a tokenizer must accept: empty, short, in other scripts, too long."""
GIVES = {"layers": "layers", "decoder": "decoder_state", "mask-token": "mask_state"}
"""Offer of a backbone -> field of `TokenStates` that holds it."""


def _build(
    subject: Subject, needs: frozenset[str] = frozenset(), saved: Path | None = None
) -> BuiltBackbone:
    with seeded():
        built: BuiltBackbone = subject.ready.build(
            BuildContext(lambda: SENTENCES, saved, needs)
        )
    built.module.eval()
    return built


def _batch(
    built: BuiltBackbone, count: int = 5, side: str = "right"
) -> tuple[Tensor, Tensor]:
    """Return token ids and mask of the first sentences, both `(count, length)`."""
    torch = load_torch()
    tokens = built.tokenizer.encode(
        SENTENCES[:count], min(MAX_LENGTH, built.max_length)
    )
    longest = int(tokens.lengths.max())
    ids = torch.full((count, longest), built.tokenizer.pad_id)
    mask = torch.zeros(count, longest, dtype=torch.long)
    for row, length in enumerate(tokens.lengths.tolist()):
        place = (
            slice(0, length) if side == "right" else slice(longest - length, longest)
        )
        start = int(tokens.offsets[row])
        ids[row, place] = torch.from_numpy(tokens.ids[start : start + length]).long()
        mask[row, place] = 1

    return ids, mask


def _states(
    module: Module, ids: Tensor, mask: Tensor | None, **keywords: Tensor
) -> TokenStates:
    with load_torch().no_grad():
        states: TokenStates = module(ids, mask, **keywords)
    return states


def _real(states: TokenStates, mask: Tensor) -> Tensor:
    """Return the states of real tokens, `(tokens, width)`."""
    return states.last_hidden_state[mask.bool()]


def built(subject: Subject) -> Findings:
    """A built backbone has a width, a maximum length, an origin, and states of that width."""
    backbone = _build(subject)
    for name, kind in (("width", int), ("max_length", int)):
        value = getattr(backbone, name, None)
        if not isinstance(value, kind) or value < 1:
            yield (
                f"`{name}` of what it builds is {value!r}",
                "say it as a whole number above 0",
            )
            return

    if not backbone.origin:
        yield (
            "`origin` says nothing",
            "say where the weights came from, with their hash",
        )

    ids, mask = _batch(backbone)
    shape = tuple(_states(backbone.module, ids, mask).last_hidden_state.shape)
    if shape != (*ids.shape, backbone.width):
        yield (
            f"of ids {tuple(ids.shape)} the states are {shape}, not {(*ids.shape, backbone.width)}",
            "return one state per id, padding included, and let `width` be the size of a state",
        )


def offers(subject: Subject) -> Findings:
    """Its states contain what it offers to poolers, if `BuildContext.needs` asks for it."""
    offered = subject.part.traits.offers or frozenset()
    for need in sorted(offered & GIVES.keys()):
        if need == "mask-token":
            continue  # It is the prompt that puts the token into a text.
        backbone = _build(subject, frozenset({need}))
        if getattr(_states(backbone.module, *_batch(backbone)), GIVES[need]) is None:
            yield (
                f"it offers `{need}`, and `{GIVES[need]}` of its states is None where `needs` names it",
                "heed `BuildContext.needs`, or take the word out of `offers`",
            )

    if (
        "mask-token" in offered
        and _build(subject, frozenset({"mask-token"})).tokenizer.mask_token is None
    ):
        yield (
            "it offers `mask-token`, and its tokenizer has none",
            "take the word out of `offers`",
        )

    if "span" in offered:
        yield from _span(_build(subject, frozenset({"span"})))


def _span(backbone: BuiltBackbone) -> Findings:
    import numpy as np

    torch, text = load_torch(), SENTENCES[0]
    read = []
    for start in (0, len(text) // 2):
        tokens = backbone.tokenizer.encode_marked([text], [start], None)
        batch = pad(tokens, np.arange(1), backbone.tokenizer.pad_id)
        keywords = {
            name: torch.from_numpy(values) for name, values in batch.keywords.items()
        }
        read.append(
            _states(
                backbone.module, torch.from_numpy(batch.input_ids), None, **keywords
            )
        )

    (whole, _), (half, mask) = (
        (states.last_hidden_state, states.attention_mask) for states in read
    )
    if not torch.equal(whole, half):
        yield (
            "tokens that are hidden from the pooler change the states",
            "hide them by the mask alone",
        )

    if mask is None or not 0 < int(mask.sum()) < mask.shape[1]:
        yield (
            "it offers `span`, and its mask hides no token of `Tokenizer.encode_marked`, or all of them",
            "give those that end before the start a 0 in `TokenStates.attention_mask`",
        )


def padding(subject: Subject) -> Findings:
    """A text has the same states alone and beside longer texts, with a mask of None or of ones."""
    backbone = _build(subject)
    ids, mask = _batch(backbone)
    together = _real(_states(backbone.module, ids, mask), mask)
    singly = [ids[row : row + 1, : int(mask[row].sum())] for row in range(len(ids))]
    torch = load_torch()
    for name, make_mask in (("None", lambda text_ids: None), ("ones", torch.ones_like)):
        states_alone = []
        for text_ids in singly:
            states = _states(backbone.module, text_ids, make_mask(text_ids))
            states_alone.append(states.last_hidden_state[0])

        alone = torch.cat(states_alone)
        off = distance(alone, together)
        if not off <= PACKED:
            yield (
                f"beside longer texts, the states of a text differ by {off:.2g} of their size from those "
                f"that it has alone with a mask of {name} (allowed {PACKED:g})",
                "let no token attend to padding, and take a mask of None for one of ones",
            )


def save(subject: Subject) -> Findings:
    """A saved backbone that is built again gives the same token ids and states."""
    backbone = _build(subject)
    ids, mask = _batch(backbone)
    before = _real(_states(backbone.module, ids, mask), mask)
    with tempfile.TemporaryDirectory() as name:
        # `save` creates the directory.
        place = Path(name) / "backbone"
        backbone.save(place)
        with seeded(1):
            context = BuildContext(tuple, place, frozenset())
            other: Any = subject.part.build(context)
        other.module.eval()
        again, _ = _batch(other)
        if again.shape != ids.shape or not bool((again == ids).all()):
            yield (
                "built from what it saved, the tokenizer gives other ids",
                "save the tokenizer beside the weights",
            )
            return
        off = distance(_real(_states(other.module, ids, mask), mask), before)

    if not off <= TOLERANCE:
        yield (
            f"built from what it saved, states differ by {off:.2g} of their size (allowed {TOLERANCE:g})",
            "save every weight, and read them from `BuildContext.saved` where that is given",
        )


def inference(subject: Subject) -> Findings:
    """`inference` returns a module with the states of the backbone in eval mode."""
    torch = load_torch()
    backbone = _build(subject)
    ids, mask = _batch(backbone)
    plain = _real(_states(backbone.module, ids, mask), mask)
    for traceable in (False, True):
        with torch.no_grad():
            states = backbone.inference(backbone.module, torch.float32, traceable)(
                ids, mask
            )
        off = distance(_real(states, mask).float(), plain)
        if not off <= PACKED:
            yield (
                f"with `traceable={traceable}`, `inference` gives states that differ by {off:.2g} of their "
                f"size (allowed {PACKED:g})",
                "return a copy in eval mode with the same weights",
            )


def tokenizer(subject: Subject) -> Findings:
    """The tokenizer keeps to a length, truncates at the end, and treats each text on its own."""
    tokenizer = _build(subject).tokenizer
    texts = [*SENTENCES[:3], *HARD]
    together = tokenizer.encode(texts, MAX_LENGTH)
    if len(together) != len(texts) or int(together.offsets[-1]) != len(together.ids):
        yield (
            f"for {len(texts)} texts `encode` gives {len(together)}",
            "return `TokenIds`: all ids, and offsets",
        )
        return

    if int(together.lengths.max()) > MAX_LENGTH:
        yield (
            f"a text has {int(together.lengths.max())} tokens where {MAX_LENGTH} are allowed",
            "cut to `max_length`, special tokens included",
        )

    for row, text in enumerate(texts):
        ids_alone = tokenizer.encode([text], MAX_LENGTH).ids.tolist()
        if (
            ids_alone
            != together.ids[together.offsets[row] : together.offsets[row + 1]].tolist()
        ):
            yield (
                f"{text[:30]!r} has other ids beside other texts",
                "tokenise each text for itself, without padding",
            )
            return

    for text, cut in zip(texts, tokenizer.truncate(texts, 3), strict=True):
        if not text.startswith(cut) or "�" in cut:
            yield (
                f"cut to 3 tokens, {text[:30]!r} is {cut!r}",
                "return the beginning of the text, character by character",
            )
            return

    if not isinstance(tokenizer.pad_id, int):
        yield f"`pad_id` is {tokenizer.pad_id!r}", "return the id that fills a batch"


def logits(subject: Subject) -> Findings:
    """If its traits say `predicts`, `logits` returns a finite number per token of its vocabulary."""
    import numpy as np

    if not subject.part.traits.predicts:
        return
    backbone = _build(subject)
    size = len(backbone.vocabulary)
    if not size or not all(
        isinstance(backbone.vocabulary[token], str) for token in (0, size - 1)
    ):
        yield (
            "its `vocabulary` holds no strings",
            "give the text of each token, by its id",
        )
        return

    states = (
        np.random.default_rng(0).standard_normal((3, backbone.width)).astype(np.float32)
    )
    for batch in (states, states[:0]):
        scored = np.asarray(backbone.logits(batch))
        if scored.shape != (len(batch), size) or scored.dtype != np.float32:
            yield (
                f"for states {batch.shape} `logits` gives {scored.dtype} {scored.shape}, not float32 "
                f"{(len(batch), size)}",
                "return one logit per token of `vocabulary` for each state",
            )
            return
        if not np.isfinite(scored).all():
            yield "`logits` gives NaN or infinity", "return finite numbers"

    alone = np.concatenate([backbone.logits(states[row : row + 1]) for row in range(3)])
    if not np.allclose(alone, backbone.logits(states), rtol=TOLERANCE, atol=TOLERANCE):
        yield (
            "a state has other logits beside other states",
            "compute each row for itself",
        )


RULES = {
    "built": built,
    "offers": offers,
    "padding": padding,
    "save": save,
    "inference": inference,
    "tokenizer": tokenizer,
    "logits": logits,
}
