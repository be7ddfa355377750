"""Rules of a pooler's module, tested on random token states."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from sentbed.protocols import Module, Tensor, TokenStates, TokenVectors

from sentbed_testing import random_token_states, torch_module_checks
from sentbed_testing.component_under_test import Subject
from sentbed_testing.random_token_states import (
    build,
    distance,
    load_torch,
    over,
    own_memory,
    rows_of,
    seeded,
)

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

TOLERANCE = 1e-5
"""Tolerance relative to the largest value for sums in another order."""
GRADIENT = 1e-2
"""Tolerance relative to the gradient's norm for finite differences in fp32."""
MOST = max(random_token_states.LENGTHS)
"""Tokens of the longest sentence."""
STATES = ("last_hidden_state", "decoder_state", "mask_state")
"""Fields of `TokenStates` with a single tensor of states."""


def _states(subject: Subject, **how: Any) -> TokenStates:
    return random_token_states.draw_states(
        width=subject.width, needs=subject.part.traits.needs, **how
    )


def _pool(
    module: Module, states: TokenStates, training: bool = False, seed: int = 0
) -> Tensor:
    """Return the vectors; of tokens, those that count, `(batch, MOST, width)`, and then zeros."""
    module.train(training)
    with seeded(seed):
        return _flush_left(module(states))


def _flush_left(vectors: Any) -> Tensor:
    """Return the vectors of tokens in one form, wherever the padding was; others as they are."""
    torch = load_torch()
    if not isinstance(vectors, TokenVectors):
        return vectors
    order = torch.argsort(~vectors.mask, dim=1, stable=True)
    places = order[..., None].expand(vectors.vectors.shape)
    mask = vectors.mask.gather(1, order)[..., None]
    kept = vectors.vectors.gather(1, places).masked_fill(~mask, 0.0)
    return torch.nn.functional.pad(kept, (0, 0, 0, MOST))[:, :MOST]


def _modes(subject: Subject) -> Iterator[tuple[str, partial[Tensor]]]:
    """Yield `in training`, but where it draws there, and `when encoding`, with the pooler in that mode."""
    module = build(subject)
    states = _states(subject)
    draws = not torch_module_checks.same(
        _pool(module, states, True), _pool(module, states, True, seed=1)
    )
    for name, training in (("in training", True), ("when encoding", False)):
        if not (training and draws):
            yield name, partial(_pool, module, training=training)


def finite(subject: Subject) -> Findings:
    """Its vectors and their gradients are numbers."""
    module = build(subject)
    for mode, training in (("in training", True), ("when encoding", False)):
        states = over(
            _states(subject, garbage=1.0), lambda value: value.clone().requires_grad_()
        )
        leaves = {
            f"layers[{number}]": layer
            for number, layer in enumerate(states.layers or ())
        }
        leaves |= {
            name: getattr(states, name)
            for name in STATES
            if getattr(states, name) is not None
        }
        leaves |= dict(module.named_parameters())
        for name, wrong in torch_module_checks.not_finite(
            partial(_pool, module, states, training), leaves
        ):
            what = f"the gradient of `{name}` is" if name else "the vectors are"
            by_row = not name or name in STATES or name.startswith("layers[")
            short = by_row and all(
                random_token_states.LENGTHS[row] == 1
                for row in wrong.nonzero()[:, 0].tolist()
            )
            where = " where a sentence has one token" if short else ""
            yield f"{mode}, {what} NaN or infinite{where}", torch_module_checks.FINITE


def shape(subject: Subject) -> Findings:
    """It gives one vector per sentence, of the width that it says, however the sentences are padded."""
    torch = load_torch()
    module = build(subject)
    widths = {
        True: (subject.ready.trained_width(subject.width), "`trained_width`"),
        False: (subject.ready.output_width(subject.width), "`output_width`"),
    }
    for side, lengths in (
        ("right", (7, 2, 4)),
        ("left", (7, 2, 4)),
        ("none", (3, 3)),
        ("right", (1,)),
    ):
        states = _states(subject, side=side, lengths=lengths)
        for mode in (True, False):
            width, method = widths[mode]
            fix = f"return `(batch, {width})`; a pooler with another width says so in {method}"
            module.train(mode)
            with seeded():
                vectors = module(states)
            if subject.ready.traits.output == "tokens":
                yield from _token_shape(vectors, len(lengths), width)
                continue
            if not isinstance(vectors, torch.Tensor):
                yield f"it returns {type(vectors).__name__}, not a tensor", fix
                return
            if (
                vectors.shape != (len(lengths), width)
                or not vectors.is_floating_point()
            ):
                shown = f"{tuple(vectors.shape)} of {vectors.dtype}"
                yield (
                    f"for {len(lengths)} sentences (padding: {side}) it returns {shown}",
                    fix,
                )
                return


def _token_shape(vectors: Any, rows: int, width: int) -> Findings:
    """Yield what is wrong with the shape of token vectors."""
    torch = load_torch()
    fix = f"return `TokenVectors`: `({rows}, length, {width})`, and a mask of `torch.bool`"
    if not isinstance(vectors, TokenVectors):
        yield f"its traits say `tokens`, and it returns {type(vectors).__name__}", fix
        return
    shape, mask = tuple(vectors.vectors.shape), vectors.mask
    if len(shape) != 3 or (shape[0], shape[2]) != (rows, width):
        yield f"for {rows} sentences it returns token vectors of the shape {shape}", fix
    elif tuple(mask.shape) != shape[:2] or mask.dtype != torch.bool:
        yield f"it returns a mask {tuple(mask.shape)} of {mask.dtype}", fix


def padding(subject: Subject) -> Findings:
    """Padding, on either side and however much, changes no vector, and gets no gradient."""
    torch = load_torch()
    fix = (
        "use `attention_mask`, which may be None: leave out what it has 0 for, before a mean, a maximum or a "
        "softmax is taken, and find the first or the last token by it"
    )
    changes: list[tuple[float, str]] = []
    leaks: list[tuple[float, str]] = []
    for mode, pool in _modes(subject):
        plain = pool(_states(subject))
        for side, more in (("right", 5), ("left", 0), ("left", 5)):
            difference = distance(pool(_states(subject, side=side, more=more)), plain)
            change = (
                "become NaN"
                if math.isnan(difference)
                else f"change by {difference:.2g} of their size"
            )
            where = f"padding is on the {side}" + (
                f", and {more} tokens longer" if more else ""
            )
            changes.append(
                (
                    difference,
                    f"{mode}, vectors {change} when {where} (allowed {TOLERANCE:g})",
                )
            )
        states = _states(subject)
        leaves = over(states, lambda value: value.detach().clone().requires_grad_())
        vectors = pool(leaves)
        if not vectors.requires_grad:
            continue
        read = [*(leaves.layers or ()), leaves.last_hidden_state]
        gradients = torch.autograd.grad(vectors.sum(), read, allow_unused=True)
        into = max(
            (
                float(g[states.attention_mask == 0].abs().max())
                for g in gradients
                if g is not None
            ),
            default=0.0,
        )
        leaks.append(
            (
                into,
                f"{mode}, the states of padding get a gradient of {into:.2g} (allowed 0)",
            )
        )
    for what in (
        *torch_module_checks.worst_first(changes, TOLERANCE),
        *torch_module_checks.worst_first(leaks, 0),
    ):
        yield what, fix


def alone(subject: Subject) -> Findings:
    """A sentence has the vector that it has alone, whatever else is in the batch."""
    for mode, pool in _modes(subject):
        states = _states(subject)
        vectors = pool(states)
        worst = 0.0
        for row, length in enumerate(random_token_states.LENGTHS):
            sentence = over(
                rows_of(states, [row]), partial(_without_padding, length=length)
            )
            worst = max(
                worst,
                distance(
                    pool(sentence._replace(attention_mask=None)), vectors[row : row + 1]
                ),
            )
        if not worst <= TOLERANCE:
            yield (
                f"{mode}, a vector changes by {worst:.2g} of its size where the sentence is alone and has no "
                f"mask (allowed {TOLERANCE:g})",
                "take no sum or mean over the rows (no batch normalisation), and a mask of None for all ones",
            )


def _without_padding(value: Tensor, length: int) -> Tensor:
    return value[:, :length] if value.ndim == 3 else value


def order(subject: Subject) -> Findings:
    """The vectors come in the order of the rows."""
    for mode, pool in _modes(subject):
        states = _states(subject)
        turned = [3, 0, 4, 2, 1]
        difference = distance(pool(rows_of(states, turned)), pool(states)[turned])
        if not difference <= TOLERANCE:
            yield (
                f"{mode}, rows in another order have vectors that differ by {difference:.2g} of their size "
                f"(allowed {TOLERANCE:g})",
                "compute each row from its own states only, and keep the order",
            )


def gradient(subject: Subject) -> Findings:
    """The gradient is that of finite differences, for states and for weights."""
    torch = load_torch()
    off: list[tuple[float, str]] = []
    module = build(subject)
    fix = "let the gradient through: no `.detach()`, no `.data`, no rounding and no `no_grad` on the way"
    states = _states(subject, garbage=1.0)
    with torch.no_grad():
        weights = torch.randn_like(
            _pool(module, states), generator=torch.Generator().manual_seed(2)
        )
    parts = {"last_hidden_state": 0, "decoder_state": 3, "mask_state": 4}
    for training in (True, False):
        mode = "in training" if training else "when encoding"
        module.train(training)

        def total(at: TokenStates, **parameters: Tensor) -> Tensor:
            with seeded():
                vectors = torch.func.functional_call(module, parameters, (at,))
            vectors = _flush_left(vectors)
            return (vectors.float() * weights).sum()

        def with_layer(value: Tensor, number: int) -> TokenStates:
            layers = list(states.layers or ())
            layers[number] = value
            return states._replace(layers=tuple(layers), last_hidden_state=layers[-1])

        tried = {
            name: (
                lambda value, n=name: total(states._replace(**{n: value})),
                states[place],
            )
            for name, place in parts.items()
            if states[place] is not None and not (place == 0 and states.layers)
        }
        for number, layer in enumerate(states.layers or ()):
            tried[f"layers[{number}]"] = (
                lambda value, n=number: total(with_layer(value, n)),
                layer,
            )
        for name, weight in module.named_parameters():
            tried[name] = (
                lambda value, n=name: total(states, **{n: value}),
                weight.detach(),
            )
        for name, (function, at) in tried.items():
            difference = torch_module_checks.disagreement(function, at)
            what = f"{mode}, the gradient of `{name}` is off by {difference:.2g} of its norm"
            off.append((difference, f"{what} (allowed {GRADIENT:g})"))
    for what in torch_module_checks.worst_first(off, GRADIENT):
        yield what, fix


def stateless(subject: Subject) -> Findings:
    """A call changes no buffer, no attribute and no argument; and the same call gives the same."""
    module = build(subject)
    for training in (True, False):
        mode = "in training" if training else "when encoding"
        drawn = _states(subject)
        states, copied = own_memory(drawn), own_memory(drawn)
        before = torch_module_checks.module_state(module)
        first = _pool(module, states, training)
        if names := torch_module_checks.changed(
            before, torch_module_checks.module_state(module)
        ):
            yield (
                f"{mode}, a call changes `{names[0]}`",
                "compute from the arguments alone; what is to be learned is a parameter",
            )
        if not torch_module_checks.same(tuple(states), tuple(copied)):
            yield (
                f"{mode}, a call writes into its arguments",
                "take copies: no operation that ends in `_`",
            )
        if not torch_module_checks.same(_pool(module, copied, training), first):
            yield (
                f"{mode}, the same call after the same seed gives other vectors",
                "keep nothing between calls, and draw from torch's own generator",
            )


def save(subject: Subject) -> Findings:
    """Weights that are saved and loaded into a new module give the same vectors."""
    module, fresh = build(subject), build(subject, seed=1)
    for name in torch_module_checks.loose_tensors(module):
        yield (
            f"`{name}` is a tensor that is not registered: it is neither saved nor moved to a device",
            "make it a `torch.nn.Parameter`, or `register_buffer` it",
        )
    fresh.load_state_dict(
        {name: value.clone() for name, value in module.state_dict().items()}
    )
    for training in (True, False):
        states = _states(subject)
        difference = distance(
            _pool(fresh, states, training), _pool(module, states, training)
        )
        if difference > 0:
            mode = "in training" if training else "when encoding"
            yield (
                f"{mode}, a new module with the saved weights gives vectors that differ by {difference:.2g} "
                "of their size (allowed 0)",
                "register all that is drawn in `build` as parameter or persistent buffer",
            )


def traceable(subject: Subject) -> Findings:
    """Nothing in it depends on the value of a tensor, so that XLA can compile it."""
    from sentbed_testing.conformance import place

    module = build(subject)
    for training in (True, False):
        module.train(training)
        states = _states(subject)

        module(states)  # What fails with values has another reason.

        def call(fake: Any, states: TokenStates = states) -> None:
            mask = states.attention_mask
            module(over(states, fake)._replace(attention_mask=fake(mask)))

        if error := torch_module_checks.data_dependence(call):
            yield (
                f"a value or a shape depends on the numbers in a tensor{place(error, subject.cls)} "
                f"({type(error).__name__})",
                "no `.item()`, `if` on a tensor, `nonzero` or boolean index: use `torch.where` or `gather`",
            )
            return


RULES = {
    "finite": finite,
    "traceable": traceable,
    "shape": shape,
    "padding": padding,
    "alone": alone,
    "order": order,
    "gradient": gradient,
    "stateless": stateless,
    "save": save,
}

_FINITE = {"finite": "the vectors are not finite; see the rule `finite`"}
_PADDING = {"padding": "padding changes the vectors; see the rule `padding`"}
AWAITED = {
    **dict.fromkeys((*RULES, "grad-cache", "jax"), _FINITE),
    **dict.fromkeys(("alone", "grad-cache"), _FINITE | _PADDING),
    "finite": {},
}
"""Rule -> the rules without which it would only repeat what they say, and why it is not tried."""
