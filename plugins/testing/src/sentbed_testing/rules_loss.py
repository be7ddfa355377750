"""Rules of a loss: the torch module that it builds is called with random vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sentbed.protocols import LABEL, PROGRESS, LossOutput, Module, StagePlace, Tensor

from sentbed_testing import torch_module_checks
from sentbed_testing.component_under_test import Subject
from sentbed_testing.random_token_states import build, load_torch, seeded

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings

ROWS = 5
TOLERANCE = 1e-5
"""Tolerance for sums in another order, relative to the loss, or absolute if the loss is below 1."""

Inputs = dict[str, Tensor]
"""Column -> vectors, classes or numbers of the rows, as a loss gets them."""


def draw_inputs(
    subject: Subject,
    rows: int = ROWS,
    seed: int = 0,
    takes: bool = True,
) -> Inputs:
    """Return random inputs of a loss: vectors, classes, or numbers in [0, 1).

    The inputs have all columns that the loss needs. With `takes`, they also have the columns that it may use.
    """
    torch = load_torch()
    traits = subject.part
    needs = traits.needs
    if LABEL in needs and not traits.classes:
        raise ValueError(
            f"it needs the column `{LABEL}`, but its traits have no `classes`, the values of this column"
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
        if traits.compares_texts:
            first = rows * (number + len(columns) * seed)
            inputs[f"{name}.id"] = torch.arange(first, first + rows)

    return inputs


def vectors_in(inputs: Mapping[str, Tensor]) -> Inputs:
    """Return the inputs that are vectors. Other inputs have no gradient."""
    return {name: value for name, value in inputs.items() if value.ndim == 2}


def has_state(module: Module) -> bool:
    """Whether the module of a loss has a method `initial_state`."""
    return hasattr(module, "initial_state")


def call(
    module: Module,
    inputs: Mapping[str, Tensor],
    *state: Any,
) -> LossOutput:
    """Return the output of a loss. A loss that has a state gets its initial state by default."""
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
    not_finite = torch_module_checks.not_finite(
        lambda: call(module, inputs).loss, leaves
    )
    for name, _ in not_finite:
        what = f"the gradient of `{name}`" if name else "the loss"
        yield f"{what} is NaN or infinite", torch_module_checks.FINITE_REMEDY


def output(subject: Subject) -> Findings:
    """It returns a `LossOutput` with an fp32 scalar and detached metrics, whatever the size of the batch."""
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
                "return a finite loss also for small batches, such as the last one of an epoch",
            )

        fix = "return detached tensors: call `.detach()`"
        for name, value in {**result.metrics, **(result.state or {})}.items():
            if not isinstance(value, torch.Tensor):
                yield f"`{name}` of its metrics and state is no tensor", fix
            elif value.requires_grad:
                yield f"`{name}` of its metrics and state has a gradient", fix

        for name, value in result.metrics.items():
            if isinstance(value, torch.Tensor) and value.shape != ():
                yield (
                    f"the metric `{name}` has the shape {tuple(value.shape)}",
                    "return scalars, which the log can hold",
                )


def state(subject: Subject) -> Findings:
    """Each call gets its state and returns the next one, with tensors of the same names, shapes and types."""
    module = build(subject)
    inputs = draw_inputs(subject)
    stateful = subject.part.stateful
    if has_state(module) != stateful:
        article = "no" if stateful else "an"
        yield (
            f"it has `stateful = {stateful}`, and its module has {article} `initial_state`",
            "set `stateful` exactly if the module has `initial_state`",
        )
        return

    if not stateful:
        if call(module, inputs).state is not None:
            yield (
                "it returns a state, but its module has no `initial_state`",
                "write `initial_state() -> dict[str, Tensor]`, the state for the first step, and "
                "`stateful = True`",
            )
        return

    first = module.initial_state()
    after = call(module, inputs, first).state
    fix = "return `LossOutput(loss, metrics, state)`, where `state` has the same tensors as `initial_state()`"
    if after is None or after.keys() != first.keys():
        yield (
            f"`initial_state()` has {sorted(first)}, but a step returns {sorted(after or ())}",
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
    permutation = [3, 0, 4, 2, 1]
    reordered_inputs = dict(inputs)
    for name, value in inputs.items():
        if name != PROGRESS:
            reordered_inputs[name] = value[permutation]
    plain = float(call(module, inputs).loss.detach())
    reordered = float(call(module, reordered_inputs).loss.detach())
    if not abs(reordered - plain) <= TOLERANCE * max(1.0, abs(plain)):
        yield (
            f"if the rows are reordered, the loss is {reordered:.6g}, not {plain:.6g} (allowed {TOLERANCE:g})",
            "return the mean over the rows, and pair row i with row i of the other columns",
        )


def gradient(subject: Subject) -> Findings:
    """The gradients of vectors and weights agree with finite differences."""
    torch = load_torch()
    module = build(subject)
    inputs, *state = _arguments(subject, module)
    fix = "let the gradient pass; if it is stopped on purpose, `skip` the rule and say why"

    def total(inputs: Mapping[str, Tensor], **parameters: Tensor) -> Tensor:
        with seeded():
            result: LossOutput = torch.func.functional_call(
                module, parameters, (inputs, *state)
            )
        return result.loss

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
    """Return the arguments of a call: a batch and, if the loss has a state, its state after two steps."""
    inputs = draw_inputs(subject)
    if not has_state(module):
        return (inputs,)
    after: Any = module.initial_state()
    for seed in (1, 2):
        after = call(module, draw_inputs(subject, seed=seed), after).state
    return inputs, after


def stateless(subject: Subject) -> Findings:
    """A call changes no buffer, attribute or argument, and a second call gives the same loss."""
    module = build(subject)
    for training in (True, False):
        module.train(training)
        effects = torch_module_checks.effects_of(
            module,
            lambda arguments: _loss_and_state(module, arguments),
            _arguments(subject, module),
        )
        yield from torch_module_checks.effect_findings(
            effects,
            "",
            "loss",
            "keep nothing in the module: write `initial_state`, and return the next state",
        )


def _loss_and_state(module: Module, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return everything that two equal calls must agree in."""
    output = call(module, *arguments)
    return output.loss, output.state


def save(subject: Subject) -> Findings:
    """A new module with the saved weights gives the same loss."""
    module, fresh = build(subject), build(subject, seed=1)
    remedy = "make it a `torch.nn.Parameter`, or return it as state"
    yield from torch_module_checks.loose_tensor_findings(module, remedy)
    fresh.load_state_dict(module.state_dict())
    arguments = _arguments(subject, module)
    loss = float(call(module, *arguments).loss.detach())
    fresh_loss = float(call(fresh, *arguments).loss.detach())
    if fresh_loss != loss:
        yield (
            f"a new module with the saved weights gives the loss {fresh_loss:.6g}, not {loss:.6g}",
            "register as parameters all tensors that `build` draws",
        )


def traceable(subject: Subject) -> Findings:
    """Neither shapes nor branches depend on the values of a tensor, so that XLA can compile the module."""
    from sentbed_testing.conformance import place

    module = build(subject)
    arguments = _arguments(subject, module)
    # An exception that this call raises is not due to missing values.
    module(*arguments)

    def call_with_fakes(fake: Any) -> None:
        fake_arguments = []
        for tensors in arguments:
            fakes = {name: fake(value) for name, value in tensors.items()}
            fake_arguments.append(fakes)
        module(*fake_arguments)

    if error := torch_module_checks.data_dependence(call_with_fakes):
        yield (
            f"a shape or a branch depends on the values of a tensor{place(error, subject.cls)} "
            f"({type(error).__name__})",
            "avoid `.item()`, `if` on a tensor, `nonzero` and boolean indices; metrics are detached tensors",
        )


def misfits(subject: Subject) -> Findings:
    """`Loss.misfits`, which yields why the loss does not fit a batch, yields only sentences."""
    for rows, fixed in ((1, frozenset[str]()), (64, frozenset({"positive"}))):
        for problem in subject.part.misfits(StagePlace(rows, fixed)):
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

_FINITE = {"finite": "the loss is not finite; see the rule `finite`"}
_STATELESS = {"stateless": "a call has side effects; see the rule `stateless`"}
_REPEATED = ("order", "gradient", "save")
PREREQUISITES = {
    **dict.fromkeys(RULES, _FINITE),
    **dict.fromkeys(_REPEATED, _FINITE | _STATELESS),
    "finite": {},
    "misfits": {},
}
"""Rule -> {another rule: reason}. The rule is not run, for this reason, if the other rule has findings."""
