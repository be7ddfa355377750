"""Rules of a loss's module, tested on random vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sentbed.protocols import LABEL, PROGRESS, LossOutput, Module, Tensor

from sentbed_testing import torch_module_checks
from sentbed_testing.component_under_test import Subject
from sentbed_testing.random_token_states import build, load_torch, seeded

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

ROWS = 5
TOLERANCE = 1e-5
"""Tolerance for sums in another order, relative to the loss, or absolute if that is below 1."""

Inputs = dict[str, Tensor]


def draw_inputs(
    subject: Subject, rows: int = ROWS, seed: int = 0, takes: bool = True
) -> Inputs:
    """Return random inputs of a loss: vectors, classes, or numbers in [0, 1).

    They are for the columns that it needs and, with `takes`, those that it may use. For a loss that predicts
    tokens, vectors are logits of a vocabulary of `width` tokens.
    """
    torch = load_torch()
    traits = subject.part.traits
    needs = traits.needs
    if LABEL in needs and not traits.classes:
        raise ValueError(
            f"it needs the column `{LABEL}` and does not say `classes`, the names that it may hold"
        )
    generator = torch.Generator().manual_seed(seed)
    columns = sorted(needs)
    if takes:
        columns = sorted(needs | (traits.takes or traits.numbers))
    inputs: Inputs = {}
    if traits.scheduled:
        inputs[PROGRESS] = torch.tensor(0.25)
    for number, name in enumerate(columns):
        if name == LABEL:
            inputs[name] = torch.arange(rows) % len(traits.classes)
            continue
        if name in traits.numbers:
            inputs[name] = torch.rand(rows, generator=generator)
            continue
        inputs[name] = torch.randn(rows, subject.width, generator=generator)
        if traits.predicts:
            inputs[f"{name}.id"] = torch.randint(
                subject.width, (rows,), generator=generator
            )
        if traits.compares_texts:
            inputs[f"{name}.id"] = torch.arange(rows) + rows * (
                number + len(columns) * seed
            )

    return inputs


def vectors_in(inputs: Mapping[str, Tensor]) -> Inputs:
    """Return those inputs of a loss that are vectors, which alone have a gradient."""
    return {name: value for name, value in inputs.items() if value.ndim == 2}


def has_state(module: Module) -> bool:
    """Whether the module of a loss has an initial state."""
    return hasattr(module, "initial_state")


def call(module: Module, inputs: Mapping[str, Tensor], *state: Any) -> LossOutput:
    """Return the output of a loss, by default with its initial state."""
    if not state and has_state(module):
        state = (module.initial_state(),)
    with seeded():
        output: LossOutput = module(inputs, *state)
    return output


def finite(subject: Subject) -> Findings:
    """The loss of a batch and its gradients are finite."""
    module = build(subject)
    inputs = draw_inputs(subject)
    vectors = {
        name: value.requires_grad_() for name, value in vectors_in(inputs).items()
    }
    leaves = {**vectors, **dict(module.named_parameters())}
    for name, _ in torch_module_checks.not_finite(
        lambda: call(module, inputs).loss, leaves
    ):
        what = f"the gradient of `{name}`" if name else "the loss"
        yield f"{what} is NaN or infinite", torch_module_checks.FINITE


def output(subject: Subject) -> Findings:
    """It returns a `LossOutput` with an fp32 scalar and detached metrics, for batches of any size."""
    torch = load_torch()
    module = build(subject)
    for rows, takes in ((ROWS, True), (ROWS, False), (2, True), (1, True)):
        inputs = draw_inputs(subject, rows, takes=takes)
        for value in vectors_in(inputs).values():
            value.requires_grad_()
        result = call(module, inputs)
        batch = f"for {rows} row(s) of {', '.join(inputs)}"
        if not isinstance(result, LossOutput):
            yield f"it returns {type(result).__name__}", "return a `LossOutput`"
            return
        loss = result.loss
        fix = "return a scalar tensor in fp32, the mean over the batch"
        if not isinstance(loss, torch.Tensor):
            yield f"{batch} the loss is {loss!r}", fix
            return
        if loss.shape != () or loss.dtype != torch.float32:
            yield f"{batch} the loss is {tuple(loss.shape)} of {loss.dtype}", fix
            return
        if not torch.isfinite(loss):
            yield (
                f"{batch} the loss is {float(loss.detach())}",
                "keep it finite: the last batch may be small",
            )
        attached = {**result.metrics, **(result.state or {})}
        fix = "return tensors, with `.detach()`"
        for name, value in attached.items():
            if not isinstance(value, torch.Tensor):
                yield f"`{name}` of its metrics and state is no tensor", fix
            elif value.requires_grad:
                yield f"`{name}` of its metrics and state has a gradient", fix
        for name, value in result.metrics.items():
            if isinstance(value, torch.Tensor) and value.shape != ():
                yield (
                    f"the metric `{name}` has the shape {tuple(value.shape)}",
                    "return scalars for the log",
                )


def state(subject: Subject) -> Findings:
    """Its memory is passed to each call and returned by it, with the same names, shapes and types."""
    module = build(subject)
    inputs = draw_inputs(subject)
    stateful = subject.part.traits.stateful
    if has_state(module) != stateful:
        yield (
            f"its traits say `stateful={stateful}`, and its module has {'no' if stateful else 'an'} "
            "`initial_state`",
            "say both, or none",
        )
        return

    if not stateful:
        if call(module, inputs).state is not None:
            yield (
                "it returns a state, and its module has no `initial_state`",
                "write `initial_state() -> dict[str, Tensor]`, what the first step is given, and "
                "`LossTraits(stateful=True)`",
            )
        return

    first = module.initial_state()
    after = call(module, inputs, first).state
    fix = "return `LossOutput(loss, metrics, state)` with the same tensors as `initial_state` has"
    if after is None or after.keys() != first.keys():
        yield (
            f"the state begins with {sorted(first)}, and a step returns {sorted(after or ())}",
            fix,
        )
        return

    for name, value in first.items():
        if (value.shape, value.dtype) != (after[name].shape, after[name].dtype):
            yield f"`{name}` of its state changes shape or type in a step", fix


def order(subject: Subject) -> Findings:
    """The loss of a batch does not depend on the order of its rows."""
    module = build(subject)
    inputs = draw_inputs(subject)
    turned = [3, 0, 4, 2, 1]
    reordered_inputs = dict(inputs)
    for name, value in inputs.items():
        if name != PROGRESS:
            reordered_inputs[name] = value[turned]
    plain = float(call(module, inputs).loss.detach())
    reordered = float(call(module, reordered_inputs).loss.detach())
    if not abs(reordered - plain) <= TOLERANCE * max(1.0, abs(plain)):
        yield (
            f"in another order of the rows the loss is {reordered:.6g}, not {plain:.6g} "
            f"(allowed {TOLERANCE:g})",
            "take the mean of what each row gives, and compare row i with row i of the other columns",
        )


def gradient(subject: Subject) -> Findings:
    """The gradient is that of finite differences, for vectors and for weights."""
    torch = load_torch()
    module = build(subject)
    arguments = _arguments(subject, module)
    fix = "let the gradient through; where it is stopped on purpose, `skip` the rule and say why"

    def total(inputs: Mapping[str, Tensor], **parameters: Tensor) -> Tensor:
        with seeded():
            result: LossOutput = torch.func.functional_call(
                module, parameters, (inputs, *arguments[1:])
            )
        return result.loss

    inputs = arguments[0]

    def with_vectors(name: str, value: Tensor) -> Tensor:
        return total({**inputs, name: value})

    def with_weight(name: str, value: Tensor) -> Tensor:
        return total(inputs, **{name: value})

    def functions() -> Iterator[tuple[str, Callable[[Tensor], Tensor], Tensor]]:
        for name, point in vectors_in(inputs).items():
            what = f"the gradient of `{name}`"
            yield what, partial(with_vectors, name), point
        for name, weight in module.named_parameters():
            what = f"the gradient of `{name}`"
            point = weight.detach()
            yield what, partial(with_weight, name), point

    for what in torch_module_checks.wrong_gradients(functions()):
        yield what, fix


def _arguments(subject: Subject, module: Module) -> tuple[Any, ...]:
    """Return a batch and, if the loss has a state, its state after two steps."""
    inputs = draw_inputs(subject)
    if not has_state(module):
        return (inputs,)
    after: Any = module.initial_state()
    for seed in (1, 2):
        after = call(module, draw_inputs(subject, seed=seed), after).state
    return inputs, after


def stateless(subject: Subject) -> Findings:
    """A call changes no buffer, attribute or argument, and repeating it gives the same loss."""
    module = build(subject)
    for training in (True, False):
        module.train(training)
        effects = torch_module_checks.effects_of(
            module,
            lambda arguments: _loss_and_state(module, arguments),
            _arguments(subject, module),
        )
        if effects.changed:
            yield (
                f"a call changes `{effects.changed}`",
                "what is kept from step to step is a state: write `initial_state`, and return the next one",
            )
        if effects.writes:
            yield (
                "a call writes into its arguments",
                "take copies: no operation that ends in `_`",
            )
        if effects.varies:
            yield (
                "the same call after the same seed gives another loss",
                "keep nothing between calls, and draw from torch's own generator",
            )


def _loss_and_state(module: Module, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    output = call(module, *arguments)
    return output.loss, output.state


def save(subject: Subject) -> Findings:
    """A new module with the saved weights gives the same loss."""
    module, fresh = build(subject), build(subject, seed=1)
    remedy = "make it a `torch.nn.Parameter`, or return it as state"
    yield from torch_module_checks.loose_tensor_findings(module, remedy)
    torch_module_checks.load_copy(module, fresh)
    arguments = _arguments(subject, module)
    loss = float(call(module, *arguments).loss.detach())
    fresh_loss = float(call(fresh, *arguments).loss.detach())
    if fresh_loss != loss:
        yield (
            f"a new module with the saved weights gives the loss {fresh_loss:.6g}, not {loss:.6g}",
            "register all that is drawn in `build` as a parameter",
        )


def traceable(subject: Subject) -> Findings:
    """No shape and no branch depends on the values of a tensor, so that XLA can compile it."""
    from sentbed_testing.conformance import place

    module = build(subject)
    arguments = _arguments(subject, module)
    module(*arguments)  # A failure on real values has another reason.

    def fakes(fake: Any) -> None:
        fake_arguments = []
        for part in arguments:
            fake_arguments.append({name: fake(value) for name, value in part.items()})
        module(*fake_arguments)

    if error := torch_module_checks.data_dependence(fakes):
        yield (
            f"a value or a shape depends on the numbers in a tensor{place(error, subject.cls)} "
            f"({type(error).__name__})",
            "no `.item()`, `if` on a tensor, `nonzero` or boolean index; metrics are detached tensors",
        )


def misfits(subject: Subject) -> Findings:
    """Its `misfits` yields sentences."""
    for rows, fixed in ((1, frozenset[str]()), (64, frozenset({"positive"}))):
        for problem in subject.part.misfits(rows, fixed):
            if not isinstance(problem, str) or not problem.strip():
                yield (
                    f"`misfits` yields {problem!r}",
                    "yield a sentence that ends in what to do",
                )


RULES = {
    "finite": finite,
    "traceable": traceable,
    "output": output,
    "state": state,
    "order": order,
    "gradient": gradient,
    "stateless": stateless,
    "save": save,
    "misfits": misfits,
}

PREREQUISITES = {
    name: {"finite": "the loss is not finite; see the rule `finite`"}
    for name in (*RULES, "grad-cache", "jax")
    if name not in ("finite", "misfits")
}
"""Rule -> {other rule: reason}: the rule is not run if the other one has findings."""
