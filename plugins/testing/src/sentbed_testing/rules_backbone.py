"""Rules of a backbone. The tested example should be a tiny backbone with random weights."""

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
"""Largest allowed difference if equal operations are computed twice, relative to the largest absolute value."""
LOOSE_TOLERANCE = 1e-4
"""Largest allowed difference if operations may be in another order, relative to the largest absolute value."""
MAX_LENGTH = 16
ROWS = 5
"""Number of texts in a batch."""
HARD_TEXTS = ("", "a", "Grüße aus Köln, 東京 und 🙂🙂🙂!", "word " * 100)
"""Texts that a tokenizer must accept: an empty one, a short one, one in several scripts, and one too long."""
STATE_FIELDS = {
    "layers": "layers",
    "decoder": "decoder_state",
    "mask-token": "mask_state",
}
"""Entry of a backbone's `offers` -> the field of `TokenStates` that holds it."""


def _build(subject: Subject, needs: frozenset[str] = frozenset()) -> BuiltBackbone:
    """Return the built backbone, in eval mode."""
    context = BuildContext(lambda: SENTENCES, None, needs)
    with seeded():
        built: BuiltBackbone = subject.ready.build(context)
    built.module.eval()
    return built


def _batch(built: BuiltBackbone) -> tuple[Tensor, Tensor]:
    """Return token ids and mask of the first sentences, both `(ROWS, length)`, padded on the right."""
    torch = load_torch()
    max_length = min(MAX_LENGTH, built.max_length)
    tokens = built.tokenizer.encode(SENTENCES[:ROWS], max_length)
    longest = int(tokens.lengths.max())
    ids = torch.full((ROWS, longest), built.tokenizer.pad_id)
    mask = torch.zeros(ROWS, longest, dtype=torch.long)
    for row, length in enumerate(tokens.lengths.tolist()):
        start = int(tokens.offsets[row])
        text_ids = tokens.ids[start : start + length]
        ids[row, :length] = torch.from_numpy(text_ids).long()
        mask[row, :length] = 1

    return ids, mask


def _states(
    module: Module,
    ids: Tensor,
    mask: Tensor | None,
    **keywords: Tensor,
) -> TokenStates:
    """Return a module's token states, computed without gradient."""
    with load_torch().no_grad():
        states: TokenStates = module(ids, mask, **keywords)
    return states


def _real(states: TokenStates, mask: Tensor) -> Tensor:
    """Return the states of all tokens except padding, `(tokens, width)`."""
    return states.last_hidden_state[mask.bool()]


def built(subject: Subject) -> Findings:
    """A built backbone has a width, a maximum length and an origin, and its states have that width."""
    backbone = _build(subject)
    for name in ("width", "max_length"):
        value = getattr(backbone, name, None)
        if not isinstance(value, int) or value < 1:
            yield (
                f"the built backbone's `{name}` is {value!r}",
                "give a whole number above 0",
            )
            return

    if not backbone.origin:
        yield (
            "`origin` is empty",
            "say where the weights came from, with their hash",
        )

    ids, mask = _batch(backbone)
    shape = tuple(_states(backbone.module, ids, mask).last_hidden_state.shape)
    expected = (*ids.shape, backbone.width)
    if shape != expected:
        yield (
            f"for ids of shape {tuple(ids.shape)}, the states have shape {shape}, not {expected}",
            "return one state per id, also for padding; `width` is the size of a state",
        )


def offers(subject: Subject) -> Findings:
    """Its states contain everything in its `offers`, if `BuildContext.needs` asks for it."""
    offered = subject.part.offers or frozenset()
    for need in sorted(offered & STATE_FIELDS.keys()):
        if need == "mask-token":
            # The states have a mask token only if the prompt puts it into the texts.
            continue
        backbone = _build(subject, frozenset({need}))
        if (
            getattr(_states(backbone.module, *_batch(backbone)), STATE_FIELDS[need])
            is None
        ):
            yield (
                f"it offers `{need}`, but `{STATE_FIELDS[need]}` of its states is None if `needs` has `{need}`",
                f"read `BuildContext.needs`, or remove `{need}` from `offers`",
            )

    if "mask-token" in offered:
        backbone = _build(subject, frozenset({"mask-token"}))
        if backbone.tokenizer.mask_token is None:
            yield (
                "it offers `mask-token`, but its tokenizer has no mask token",
                "remove `mask-token` from `offers`",
            )

    if "span" in offered:
        yield from _span_faults(_build(subject, frozenset({"span"})))


def _span_faults(backbone: BuiltBackbone) -> Findings:
    """Yield what is wrong with the states or the mask if the beginning of a text is hidden from the pooler."""
    torch = load_torch()
    text = SENTENCES[0]
    whole = _states_from(backbone, text, 0)
    half = _states_from(backbone, text, len(text) // 2)
    if not torch.equal(whole.last_hidden_state, half.last_hidden_state):
        yield (
            "tokens that are hidden from the pooler change the states",
            "hide them by the mask alone",
        )

    mask = half.attention_mask
    if mask is None or not 0 < int(mask.sum()) < mask.shape[1]:
        yield (
            "it offers `span`, but its mask hides no token or all tokens of `Tokenizer.encode_marked`",
            "set `TokenStates.attention_mask` to 0 for tokens that end before the start of the span",
        )


def _states_from(
    backbone: BuiltBackbone,
    text: str,
    start: int,
) -> TokenStates:
    """Return the states of a text whose characters before `start` are hidden from the pooler."""
    import numpy as np

    torch = load_torch()
    tokens = backbone.tokenizer.encode_marked([text], [start], None)
    batch = pad(tokens, np.arange(1), backbone.tokenizer.pad_id)
    ids = torch.from_numpy(batch.input_ids)
    keywords = {
        name: torch.from_numpy(values) for name, values in batch.keywords.items()
    }
    return _states(backbone.module, ids, None, **keywords)


def padding(subject: Subject) -> Findings:
    """A text has the same states alone, with a mask of None or of ones, as in a batch with longer texts."""
    torch = load_torch()
    backbone = _build(subject)
    ids, mask = _batch(backbone)
    together = _real(_states(backbone.module, ids, mask), mask)
    for name in ("None", "ones"):
        states_alone = []
        for row, length in enumerate(mask.sum(1).tolist()):
            text_ids = ids[row : row + 1, :length]
            text_mask = torch.ones_like(text_ids) if name == "ones" else None
            states = _states(backbone.module, text_ids, text_mask)
            states_alone.append(states.last_hidden_state[0])

        difference = distance(torch.cat(states_alone), together)
        if not difference <= LOOSE_TOLERANCE:
            yield (
                f"the states of a text beside longer texts differ by {difference:.2g} of their size from its "
                f"states alone with a mask of {name} (allowed {LOOSE_TOLERANCE:g})",
                "let no token attend to padding, and treat a mask of None like a mask of ones",
            )


def save(subject: Subject) -> Findings:
    """A saved backbone that is built again gives the same token ids and states."""
    backbone = _build(subject)
    ids, mask = _batch(backbone)
    before = _real(_states(backbone.module, ids, mask), mask)
    with tempfile.TemporaryDirectory() as name:
        # `save` creates the directory.
        path = Path(name) / "backbone"
        backbone.save(path)
        with seeded(1):
            context = BuildContext(tuple, path, frozenset())
            loaded: Any = subject.part.build(context)
        loaded.module.eval()
        loaded_ids, _ = _batch(loaded)
        if loaded_ids.shape != ids.shape or not bool((loaded_ids == ids).all()):
            yield (
                "built from what it saved, the tokenizer gives other ids",
                "save the tokenizer beside the weights",
            )
            return

        after = _real(_states(loaded.module, ids, mask), mask)
        difference = distance(after, before)

    if not difference <= TOLERANCE:
        yield (
            f"built from what it saved, states differ by {difference:.2g} of their size (allowed {TOLERANCE:g})",
            "save every weight, and read the weights from `BuildContext.saved` if it is not None",
        )


def inference(subject: Subject) -> Findings:
    """`inference` returns a module that computes the states of the backbone in eval mode."""
    torch = load_torch()
    backbone = _build(subject)
    ids, mask = _batch(backbone)
    plain = _real(_states(backbone.module, ids, mask), mask)
    for traceable in (False, True):
        with torch.no_grad():
            module = backbone.inference(backbone.module, torch.float32, traceable)
            states = module(ids, mask)
        difference = distance(_real(states, mask).float(), plain)
        if not difference <= LOOSE_TOLERANCE:
            yield (
                f"with `traceable={traceable}`, `inference` gives states that differ by {difference:.2g} of "
                f"their size (allowed {LOOSE_TOLERANCE:g})",
                "return a copy in eval mode with the same weights",
            )


def tokenizer(subject: Subject) -> Findings:
    """The tokenizer obeys a maximum length, truncates texts at the end, and encodes each text by itself."""
    tokenizer = _build(subject).tokenizer
    texts = [*SENTENCES[:3], *HARD_TEXTS]
    together = tokenizer.encode(texts, MAX_LENGTH)
    if len(together) != len(texts) or int(together.offsets[-1]) != len(together.ids):
        yield (
            f"for {len(texts)} texts `encode` gives {len(together)}",
            "return `TokenIds` with the ids of all texts and their offsets",
        )
        return

    if int(together.lengths.max()) > MAX_LENGTH:
        yield (
            f"a text has {int(together.lengths.max())} tokens, but {MAX_LENGTH} are allowed",
            "cut to `max_length`, special tokens included",
        )

    for row, text in enumerate(texts):
        ids_alone = tokenizer.encode([text], MAX_LENGTH).ids.tolist()
        start, end = together.offsets[row : row + 2]
        if ids_alone != together.ids[start:end].tolist():
            yield (
                f"{text[:30]!r} has other ids beside other texts",
                "tokenise each text by itself, without padding",
            )
            return

    for text, cut in zip(texts, tokenizer.truncate(texts, 3), strict=True):
        if not text.startswith(cut) or "�" in cut:
            yield (
                f"cut to 3 tokens, {text[:30]!r} is {cut!r}",
                "return whole characters from the beginning of the text",
            )
            return

    if not isinstance(tokenizer.pad_id, int):
        yield f"`pad_id` is {tokenizer.pad_id!r}", "return the id that fills a batch"


RULES = {
    "built": built,
    "offers": offers,
    "padding": padding,
    "save": save,
    "inference": inference,
    "tokenizer": tokenizer,
}
