"""Rules of a pooler: the torch module that it builds is called with random token states."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
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
"""Tolerance for sums in another order, relative to the largest absolute value."""
MAX_TOKENS = max(random_token_states.LENGTHS)
"""Number of tokens of the longest sentence."""
STATES = ("last_hidden_state", "decoder_state", "mask_state")
"""Fields of `TokenStates` that hold a single tensor of states."""
MODES = {"in training": True, "when encoding": False}
"""Name in messages -> whether the module is in training mode."""


def _states(subject: Subject, **options: Any) -> TokenStates:
    """Return random states of the width and with the fields that the pooler needs; see `draw_states`."""
    return random_token_states.draw_states(
        width=subject.width, needs=subject.part.needs, **options
    )


def _pool(
    module: Module,
    states: TokenStates,
    training: bool = False,
    seed: int = 0,
) -> Tensor:
    """Return the pooler's sentence vectors, or its token vectors in the form of `_without_gaps`."""
    module.train(training)
    with seeded(seed):
        return _without_gaps(module(states))


def _without_gaps(vectors: Tensor | TokenVectors) -> Tensor:
    """Return token vectors as a tensor `(batch, MAX_TOKENS, width)` in which zeros follow the unmasked vectors.

    So token vectors can be compared whatever their padding is. Sentence vectors are returned unchanged.
    """
    torch = load_torch()
    if not isinstance(vectors, TokenVectors):
        return vectors
    order = torch.argsort(~vectors.mask, dim=1, stable=True)
    indices = order[..., None].expand(vectors.vectors.shape)
    mask = vectors.mask.gather(1, order)[..., None]
    ordered = vectors.vectors.gather(1, indices).masked_fill(~mask, 0.0)
    padded: Tensor = torch.nn.functional.pad(ordered, (0, 0, 0, MAX_TOKENS))
    return padded[:, :MAX_TOKENS]


def _modes(subject: Subject) -> Iterator[tuple[str, partial[Tensor]]]:
    """Yield the name of each mode, and a function that pools in this mode.

    The training mode is left out if the pooler draws random numbers in training.
    """
    module = build(subject)
    states = _states(subject)
    first = _pool(module, states, training=True)
    second = _pool(module, states, training=True, seed=1)
    is_random = not torch_module_checks.same(first, second)
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
        state_leaves = _leaves(states)
        state_leaves["last_hidden_state"] = states.last_hidden_state
        leaves = state_leaves | dict(module.named_parameters())
        pool = partial(_pool, module, states, training)
        for name, wrong in torch_module_checks.not_finite(pool, leaves):
            what = f"the gradient of `{name}` is" if name else "the vectors are"
            has_rows = not name or name in state_leaves
            where = ""
            if has_rows and _are_short(wrong.nonzero()[:, 0].tolist()):
                where = " where a sentence has one token"
            yield (
                f"{mode}, {what} NaN or infinite{where}",
                torch_module_checks.FINITE_REMEDY,
            )


def _are_short(rows: list[int]) -> bool:
    """Whether all sentences in these rows have a single token."""
    return all(random_token_states.LENGTHS[row] == 1 for row in rows)


def shape(subject: Subject) -> Findings:
    """It returns one vector of the declared width per sentence, whatever the padding."""
    torch = load_torch()
    module = build(subject)
    layouts = (
        ("right", (7, 2, 4)),
        ("left", (7, 2, 4)),
        ("none", (3, 3)),
        ("right", (1,)),
    )
    for (side, lengths), training in product(layouts, (True, False)):
        states = _states(subject, side=side, lengths=lengths)
        method = "trained_width" if training else "output_width"
        width = getattr(subject.ready, method)(subject.width)
        module.train(training)
        with seeded():
            vectors = module(states)

        if subject.ready.output == "tokens":
            yield from _token_shape_faults(vectors, len(lengths), width)
            continue
        fix = f"return `(batch, {width})`; a pooler with another width says so in `{method}`"
        if not isinstance(vectors, torch.Tensor):
            yield f"it returns {type(vectors).__name__}, not a tensor", fix
            return
        shape = tuple(vectors.shape)
        if shape != (len(lengths), width) or not vectors.is_floating_point():
            yield (
                f"for {len(lengths)} sentences (padding: {side}) it returns {shape} of {vectors.dtype}",
                fix,
            )
            return


def _token_shape_faults(
    vectors: Any,
    rows: int,
    width: int,
) -> Findings:
    """Yield what is wrong with the type or the shape of token vectors."""
    torch = load_torch()
    fix = f"return `TokenVectors`: `({rows}, length, {width})`, and a mask of `torch.bool`"
    if not isinstance(vectors, TokenVectors):
        yield (
            f"`output` of its traits is `tokens`, but it returns {type(vectors).__name__}",
            fix,
        )
        return

    shape, mask = tuple(vectors.vectors.shape), vectors.mask
    if len(shape) != 3 or (shape[0], shape[2]) != (rows, width):
        yield f"for {rows} sentences it returns token vectors of the shape {shape}", fix
    elif tuple(mask.shape) != shape[:2] or mask.dtype != torch.bool:
        yield f"it returns a mask {tuple(mask.shape)} of {mask.dtype}", fix


def padding(subject: Subject) -> Findings:
    """Padding changes no vector and gets no gradient, whatever its side and length."""
    fix = (
        "use `attention_mask`, which may be None: leave out tokens whose mask is 0 before you take a mean, a "
        "maximum or a softmax, and find the first or the last token by the mask"
    )
    changes: list[tuple[float, str]] = []
    gradients: list[tuple[float, str]] = []
    for mode, pool in _modes(subject):
        plain = pool(_states(subject))
        for side, more in (("right", 5), ("left", 0), ("left", 5)):
            difference = distance(pool(_states(subject, side=side, more=more)), plain)
            change = f"change by {difference:.2g} of their size"
            if math.isinf(difference):
                change = "become NaN, or have another shape,"
            layout = f"padding is on the {side}"
            if more:
                layout += f", and {more} tokens longer"
            message = f"{mode}, vectors {change} when {layout} (allowed {TOLERANCE:g})"
            changes.append((difference, message))

        largest = _largest_gradient_of_padding(pool, _states(subject))
        message = (
            f"{mode}, the states of padding get a gradient of {largest:.2g} (allowed 0)"
        )
        gradients.append((largest, message))

    for message in torch_module_checks.worst_first(changes, TOLERANCE):
        yield message, fix
    for message in torch_module_checks.worst_first(gradients, 0):
        yield message, fix


def _largest_gradient_of_padding(
    pool: Callable[[TokenStates], Tensor], states: TokenStates
) -> float:
    """Return the largest absolute gradient of the states of padding; infinite for NaN."""
    leaves = over(states, lambda value: value.detach().clone().requires_grad_())
    vectors = pool(leaves)
    if not vectors.requires_grad:
        return 0.0

    inputs = [*(leaves.layers or ()), leaves.last_hidden_state]
    grad = load_torch().autograd.grad
    is_padding = states.attention_mask == 0
    largest = 0.0
    for gradient in grad(vectors.sum(), inputs, allow_unused=True):
        if gradient is not None:
            of_padding = gradient[is_padding]
            zeros = load_torch().zeros_like(of_padding)
            largest = max(largest, distance(of_padding, zeros))
    return largest


def alone(subject: Subject) -> Findings:
    """A sentence has the same vector alone and in a batch."""
    for mode, pool in _modes(subject):
        states = _states(subject)
        vectors = pool(states)
        worst = 0.0
        for row, length in enumerate(random_token_states.LENGTHS):
            truncate = partial(_first_tokens, length=length)
            sentence = over(rows_of(states, [row]), truncate)
            sentence = sentence._replace(attention_mask=None)
            worst = max(worst, distance(pool(sentence), vectors[row : row + 1]))

        if not worst <= TOLERANCE:
            yield (
                f"{mode}, a vector changes by {worst:.2g} of its size if the sentence is alone and has no "
                f"mask (allowed {TOLERANCE:g})",
                "take no sum or mean over rows, as in batch normalisation, and treat a mask of None like ones",
            )


def _first_tokens(value: Tensor, length: int) -> Tensor:
    """Return the first tokens of states `(batch, length, width)`; states `(batch, width)` are unchanged."""
    return value[:, :length] if value.ndim == 3 else value


def order(subject: Subject) -> Findings:
    """The vectors are in the order of the rows, and do not depend on it."""
    for mode, pool in _modes(subject):
        states = _states(subject)
        permutation = [3, 0, 4, 2, 1]
        reordered = pool(rows_of(states, permutation))
        difference = distance(reordered, pool(states)[permutation])
        if not difference <= TOLERANCE:
            yield (
                f"{mode}, if the rows are reordered, their vectors differ by {difference:.2g} of their size "
                f"(allowed {TOLERANCE:g})",
                "compute each row from its own states only, and keep the order",
            )


def gradient(subject: Subject) -> Findings:
    """The gradients of states and weights agree with finite differences."""
    torch = load_torch()
    module = build(subject)
    fix = "let the gradient pass: use no `.detach()`, `.data`, `no_grad` or rounding"
    states = _states(subject, garbage=1.0)
    with torch.no_grad():
        vectors = _pool(module, states)
        generator = torch.Generator().manual_seed(2)
        factors = torch.randn_like(vectors, generator=generator)

    def total(states: TokenStates, **parameters: Tensor) -> Tensor:
        with seeded():
            vectors = torch.func.functional_call(module, parameters, (states,))
        products: Tensor = _without_gaps(vectors).float() * factors
        return products.sum()

    def with_states(name: str, value: Tensor) -> Tensor:
        return total(_replace_leaf(states, name, value))

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
    """Return the tensors of states by name.

    If there are layers, `last_hidden_state` is left out, since it is the last layer.
    """
    leaves = {}
    for number, layer in enumerate(states.layers or ()):
        leaves[f"layers[{number}]"] = layer
    for name in STATES:
        value = getattr(states, name)
        is_layer = name == "last_hidden_state" and states.layers
        if value is not None and not is_layer:
            leaves[name] = value

    return leaves


def _replace_leaf(
    states: TokenStates,
    name: str,
    value: Tensor,
) -> TokenStates:
    """Return states in which one tensor is replaced; `name` is a name of `_leaves`."""
    if name in STATES:
        replaced: dict[str, Any] = {name: value}
        return states._replace(**replaced)
    layers = list(states.layers or ())
    layers[int(name.removeprefix("layers[").removesuffix("]"))] = value
    return states._replace(layers=tuple(layers), last_hidden_state=layers[-1])


def stateless(subject: Subject) -> Findings:
    """A call changes no buffer, attribute or argument, and a second call gives the same vectors."""
    module = build(subject)
    for mode, training in MODES.items():
        effects = torch_module_checks.effects_of(
            module, partial(_pool, module, training=training), _states(subject)
        )
        yield from torch_module_checks.effect_findings(
            effects,
            f"{mode}, ",
            "vector",
            "compute from the arguments alone; only parameters are learned",
        )


def save(subject: Subject) -> Findings:
    """A new module with the saved weights gives the same vectors."""
    module, fresh = build(subject), build(subject, seed=1)
    remedy = "make it a `torch.nn.Parameter`, or `register_buffer` it"
    yield from torch_module_checks.loose_tensor_findings(module, remedy)
    fresh.load_state_dict(module.state_dict())
    for mode, training in MODES.items():
        states = _states(subject)
        expected = _pool(module, states, training)
        difference = distance(_pool(fresh, states, training), expected)
        if difference > 0:
            yield (
                f"{mode}, a new module with the saved weights gives vectors that differ by {difference:.2g} "
                "of their size (allowed 0)",
                "register as parameters or persistent buffers all tensors that `build` draws",
            )


def traceable(subject: Subject) -> Findings:
    """Neither shapes nor branches depend on the values of a tensor, so that XLA can compile the module."""
    from sentbed_testing.conformance import place

    module = build(subject)
    for training in (True, False):
        module.train(training)
        states = _states(subject)
        # An exception that this call raises is not due to missing values.
        module(states)

        def call_with_fakes(fake: Any, states: TokenStates = states) -> None:
            fakes = over(states, fake)
            module(fakes._replace(attention_mask=fake(states.attention_mask)))

        if error := torch_module_checks.data_dependence(call_with_fakes):
            yield (
                f"a shape or a branch depends on the values of a tensor{place(error, subject.cls)} "
                f"({type(error).__name__})",
                "avoid `.item()`, `if` on a tensor, `nonzero` and boolean indices: use `torch.where` or `gather`",
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
_STATELESS = {"stateless": "a call has side effects; see the rule `stateless`"}
_SEVERAL_CALLS = _FINITE | _STATELESS
_PADDING = {"padding": "padding changes the vectors; see the rule `padding`"}
PREREQUISITES = dict.fromkeys(RULES, _FINITE) | {"finite": {}}
"""Rule -> {another rule: reason}. The rule is not run, for this reason, if the other rule has findings."""
PREREQUISITES |= dict.fromkeys(("padding", "order", "gradient", "save"), _SEVERAL_CALLS)
PREREQUISITES |= {"alone": _SEVERAL_CALLS | _PADDING}
