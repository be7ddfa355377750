"""Rules of a pooler's module, tested on random token states."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
    rows_of,
    seeded,
)

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

TOLERANCE = 1e-5
"""Tolerance relative to the largest value for sums in another order."""
MOST = max(random_token_states.LENGTHS)
"""Number of tokens of the longest sentence."""
STATES = ("last_hidden_state", "decoder_state", "mask_state")
"""Fields of `TokenStates` with a single tensor of states."""
MODES = {"in training": True, "when encoding": False}


def _states(subject: Subject, **how: Any) -> TokenStates:
    return random_token_states.draw_states(
        width=subject.width, needs=subject.part.traits.needs, **how
    )


def _pool(
    module: Module, states: TokenStates, training: bool = False, seed: int = 0
) -> Tensor:
    """Return sentence vectors, or token vectors as `_flush_left` does."""
    module.train(training)
    with seeded(seed):
        return _flush_left(module(states))


def _flush_left(vectors: Tensor | TokenVectors) -> Tensor:
    """Return token vectors with real tokens first, then zeros, `(batch, MOST, width)`; others unchanged."""
    torch = load_torch()
    if not isinstance(vectors, TokenVectors):
        return vectors
    order = torch.argsort(~vectors.mask, dim=1, stable=True)
    places = order[..., None].expand(vectors.vectors.shape)
    mask = vectors.mask.gather(1, order)[..., None]
    kept = vectors.vectors.gather(1, places).masked_fill(~mask, 0.0)
    padded: Tensor = torch.nn.functional.pad(kept, (0, 0, 0, MOST))
    return padded[:, :MOST]


def _modes(subject: Subject) -> Iterator[tuple[str, partial[Tensor]]]:
    """Yield each mode with a function that pools in it; no training mode if the pooler is random there."""
    module = build(subject)
    states = _states(subject)
    is_random = not torch_module_checks.same(
        _pool(module, states, True), _pool(module, states, True, seed=1)
    )
    for name, training in MODES.items():
        if not (training and is_random):
            yield name, partial(_pool, module, training=training)


def finite(subject: Subject) -> Findings:
    """Its vectors and their gradients are finite."""
    module = build(subject)
    for mode, training in MODES.items():
        states = over(
            _states(subject, garbage=1.0), lambda value: value.clone().requires_grad_()
        )
        of_states = _leaves(states)
        of_states["last_hidden_state"] = states.last_hidden_state
        leaves = of_states | dict(module.named_parameters())
        pool = partial(_pool, module, states, training)
        for name, wrong in torch_module_checks.not_finite(pool, leaves):
            what = f"the gradient of `{name}` is" if name else "the vectors are"
            where = ""
            by_row = not name or name in of_states
            if by_row and _are_short(wrong.nonzero()[:, 0].tolist()):
                where = " where a sentence has one token"
            yield f"{mode}, {what} NaN or infinite{where}", torch_module_checks.FINITE


def _are_short(rows: list[int]) -> bool:
    """Whether the sentences of these rows have one token."""
    return all(random_token_states.LENGTHS[row] == 1 for row in rows)


def shape(subject: Subject) -> Findings:
    """It returns one vector per sentence, of the width that it declares, with any padding."""
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
    """Padding, on either side and of any length, changes no vector and gets no gradient."""
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
            change = f"change by {difference:.2g} of their size"
            if math.isnan(difference):
                change = "become NaN"
            where = f"padding is on the {side}"
            if more:
                where += f", and {more} tokens longer"
            message = f"{mode}, vectors {change} when {where} (allowed {TOLERANCE:g})"
            changes.append((difference, message))

        states = _states(subject)
        leaves = over(states, lambda value: value.detach().clone().requires_grad_())
        vectors = pool(leaves)
        if not vectors.requires_grad:
            continue
        read = [*(leaves.layers or ()), leaves.last_hidden_state]
        is_padding = states.attention_mask == 0
        largest = 0.0
        for value in torch.autograd.grad(vectors.sum(), read, allow_unused=True):
            if value is not None:
                largest = max(largest, float(value[is_padding].abs().max()))
        message = (
            f"{mode}, the states of padding get a gradient of {largest:.2g} (allowed 0)"
        )
        leaks.append((largest, message))

    for what in (
        *torch_module_checks.worst_first(changes, TOLERANCE),
        *torch_module_checks.worst_first(leaks, 0),
    ):
        yield what, fix


def alone(subject: Subject) -> Findings:
    """A sentence has the same vector alone and in a batch."""
    for mode, pool in _modes(subject):
        states = _states(subject)
        vectors = pool(states)
        worst = 0.0
        for row, length in enumerate(random_token_states.LENGTHS):
            cut = partial(_without_padding, length=length)
            sentence = over(rows_of(states, [row]), cut)._replace(attention_mask=None)
            worst = max(worst, distance(pool(sentence), vectors[row : row + 1]))
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
    module = build(subject)
    fix = "let the gradient through: no `.detach()`, no `.data`, no rounding and no `no_grad` on the way"
    states = _states(subject, garbage=1.0)
    with torch.no_grad():
        weights = torch.randn_like(
            _pool(module, states), generator=torch.Generator().manual_seed(2)
        )

    def total(at: TokenStates, **parameters: Tensor) -> Tensor:
        with seeded():
            vectors = torch.func.functional_call(module, parameters, (at,))
        products: Tensor = _flush_left(vectors).float() * weights
        return products.sum()

    def with_states(name: str, value: Tensor) -> Tensor:
        return total(_with(states, name, value))

    def with_weight(name: str, value: Tensor) -> Tensor:
        return total(states, **{name: value})

    def functions() -> Iterator[tuple[str, Callable[[Tensor], Tensor], Tensor]]:
        for mode, training in MODES.items():
            module.train(training)
            for name, point in _leaves(states).items():
                what = f"{mode}, the gradient of `{name}`"
                yield what, partial(with_states, name), point
            for name, weight in module.named_parameters():
                what = f"{mode}, the gradient of `{name}`"
                point = weight.detach()
                yield what, partial(with_weight, name), point

    for what in torch_module_checks.wrong_gradients(functions()):
        yield what, fix


def _leaves(states: TokenStates) -> dict[str, Tensor]:
    """Return the tensors of states by name; the last of the layers stands for `last_hidden_state`."""
    leaves = {}
    for number, layer in enumerate(states.layers or ()):
        leaves[f"layers[{number}]"] = layer
    for name in STATES:
        value = getattr(states, name)
        is_layer = name == "last_hidden_state" and states.layers
        if value is not None and not is_layer:
            leaves[name] = value

    return leaves


def _with(states: TokenStates, name: str, value: Tensor) -> TokenStates:
    """Return states in which one tensor is replaced; `name` is one of `_leaves`."""
    if name in STATES:
        replaced: dict[str, Any] = {name: value}
        return states._replace(**replaced)
    layers = list(states.layers or ())
    layers[int(name.removeprefix("layers[").removesuffix("]"))] = value
    return states._replace(layers=tuple(layers), last_hidden_state=layers[-1])


def stateless(subject: Subject) -> Findings:
    """A call changes no buffer, attribute or argument, and repeating it gives the same vectors."""
    module = build(subject)
    for mode, training in MODES.items():
        effects = torch_module_checks.effects_of(
            module, partial(_pool, module, training=training), _states(subject)
        )
        if effects.changed:
            yield (
                f"{mode}, a call changes `{effects.changed}`",
                "compute from the arguments alone; what is to be learned is a parameter",
            )
        if effects.writes:
            yield (
                f"{mode}, a call writes into its arguments",
                "take copies: no operation that ends in `_`",
            )
        if effects.varies:
            yield (
                f"{mode}, the same call after the same seed gives other vectors",
                "keep nothing between calls, and draw from torch's own generator",
            )


def save(subject: Subject) -> Findings:
    """A new module with the saved weights gives the same vectors."""
    module, fresh = build(subject), build(subject, seed=1)
    remedy = "make it a `torch.nn.Parameter`, or `register_buffer` it"
    yield from torch_module_checks.loose_tensor_findings(module, remedy)
    torch_module_checks.load_copy(module, fresh)
    for mode, training in MODES.items():
        states = _states(subject)
        expected = _pool(module, states, training)
        difference = distance(_pool(fresh, states, training), expected)
        if difference > 0:
            yield (
                f"{mode}, a new module with the saved weights gives vectors that differ by {difference:.2g} "
                "of their size (allowed 0)",
                "register all that is drawn in `build` as parameter or persistent buffer",
            )


def traceable(subject: Subject) -> Findings:
    """No shape and no branch depends on the values of a tensor, so that XLA can compile it."""
    from sentbed_testing.conformance import place

    module = build(subject)
    for training in (True, False):
        module.train(training)
        states = _states(subject)

        module(states)  # A failure on real values has another reason.

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
PREREQUISITES = {
    **dict.fromkeys((*RULES, "grad-cache", "jax"), _FINITE),
    **dict.fromkeys(("alone", "grad-cache"), _FINITE | _PADDING),
    "finite": {},
}
"""Rule -> {other rule: reason}: the rule is not run if the other one has findings."""
