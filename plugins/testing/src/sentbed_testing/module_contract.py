"""The contract of a component whose `build` returns a torch module: what a call may do, and what is saved."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import pytest
import torch
from sentbed_common import host_generator_states
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import Module
from torch.testing import assert_close
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from sentbed_testing.component_contract import ComponentContract

SEED = 8_191
"""Seed of torch's generator before a call in training: one that no module sets."""
NAMES_OF_TORCH = frozenset(vars(Module()))
"""Attributes that every module has."""


def seeded_module(component: Any, width: int, seed: int = 0) -> Module:
    """Return the module that a component builds, initialised from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module: Module = component.build(width)
    return module


def with_gradient(tensors: Any) -> Any:
    """Return copies of floating-point tensors, also within tuples and mappings, that require a gradient."""

    def leaf(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor

        return tensor.detach().clone().requires_grad_()

    return tree_map_only(Tensor, leaf, tensors)


def assert_gradient(function: Callable[..., Tensor], tensors: Sequence[Tensor]) -> None:
    """Compare the gradients of `function` for all tensors with finite differences.

    Modules compute in float32. Hence the steps and the tolerance are larger than the defaults of `gradcheck`.
    """

    def in_float32(*values: Tensor) -> Tensor:
        return function(*(value.float() for value in values)).double()

    points = [tensor.detach().double().requires_grad_() for tensor in tensors]
    torch.autograd.gradcheck(
        in_float32, points, eps=1e-2, atol=2e-4, rtol=1e-2, fast_mode=True
    )


def written_attributes(module: Module) -> dict[str, str]:
    """Return the attributes of a module and its submodules that torch does not know, as text."""
    attributes = {}
    for name, submodule in module.named_modules():
        for key, value in vars(submodule).items():
            if key not in NAMES_OF_TORCH:
                attributes[f"{name}.{key}"] = repr(value)
    return attributes


class ModuleContract(ComponentContract):
    """Tests of the torch module that a component builds."""

    width: ClassVar[int] = 8
    """Dimension of the states or vectors for which modules are built."""

    def arguments(self, component: Any) -> tuple[Any, ...]:
        """Return the arguments of a call: random, and the same in every call of this method.

        Tensors require a gradient if the module must have one for them.
        """
        raise NotImplementedError

    def results(self, output: Any) -> Any:
        """Return the tensors of an output, in sequences and mappings."""
        raise NotImplementedError

    def differentiable(self, output: Any) -> Tensor:
        """Return the part of an output that has a gradient, as one tensor."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _generator(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            yield

    @pytest.fixture(params=["training", "encoding"])
    def module(
        self,
        component: Any,
        request: pytest.FixtureRequest,
    ) -> Module:
        """The module in training mode, and in the mode for encoding."""
        module = seeded_module(component, self.width)
        return module.train(request.param == "training")

    def call(
        self,
        module: Module,
        *arguments: Any,
    ) -> Any:
        """Return the results of a call. In training, torch's generator is seeded before the call."""
        if module.training:
            torch.manual_seed(SEED)

        return self.results(module(*arguments))

    def test_a_call_changes_nothing(
        self,
        component: Any,
        module: Module,
    ) -> None:
        """A call changes no attribute, buffer or argument, and seeds no generator."""
        arguments = self.arguments(component)
        weights = copy.deepcopy(module.state_dict())
        attributes = written_attributes(module)
        generators = host_generator_states()
        with torch.no_grad():
            self.call(module, *arguments)

        assert written_attributes(module) == attributes
        assert_close(module.state_dict(), weights, rtol=0, atol=0)
        assert_close(arguments, self.arguments(component), rtol=0, atol=0)
        assert host_generator_states() == generators, "draw from torch's generator"

        if module.training:
            assert torch.initial_seed() == SEED, "do not seed torch's generator"

    def test_a_repeated_call_gives_the_same(
        self,
        component: Any,
        module: Module,
    ) -> None:
        """The same arguments give the same result, to the bit; in training, after the same seed."""
        first = self.call(module, *self.arguments(component))
        second = self.call(module, *self.arguments(component))

        assert_close(second, first, rtol=0, atol=0)

    def test_gradient(
        self,
        component: Any,
        module: Module,
    ) -> None:
        """The gradients of arguments and weights agree with finite differences; none is NaN or infinite."""
        leaves, structure = tree_flatten(self.arguments(component))
        places = []
        for place, leaf in enumerate(leaves):
            if getattr(leaf, "requires_grad", False):
                places.append(place)

        parameters = dict(module.named_parameters())

        def call(*tensors: Tensor) -> Tensor:
            values = list(leaves)
            for place, tensor in zip(places, tensors, strict=False):
                values[place] = tensor
            weights = dict(zip(parameters, tensors[len(places) :], strict=True))
            arguments = tree_unflatten(values, structure)
            torch.manual_seed(SEED)
            output = torch.func.functional_call(module, weights, arguments)
            return self.differentiable(output)

        assert_gradient(
            call, [*(leaves[place] for place in places), *parameters.values()]
        )

    def test_weights_are_saved(
        self,
        component: Any,
        module: Module,
    ) -> None:
        """A new module with the saved weights gives the same result: every tensor of `build` is registered."""
        fresh = seeded_module(component, self.width, seed=1).train(module.training)
        fresh.load_state_dict(module.state_dict())
        expected = self.call(module, *self.arguments(component))
        actual = self.call(fresh, *self.arguments(component))

        assert_close(actual, expected, rtol=0, atol=0)

    def test_tensors_are_registered(self, module: Module) -> None:
        """Tensors are parameters or buffers: others do not move to the device of the module."""
        for submodule in module.modules():
            for name, value in vars(submodule).items():
                assert not isinstance(value, Tensor), f"register `{name}`"

    def test_can_be_traced(
        self,
        component: Any,
        module: Module,
    ) -> None:
        """Neither shapes nor branches depend on the values of a tensor, as compilers require."""
        arguments = self.arguments(component)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            module(*tree_map_only(Tensor, mode.from_tensor, arguments))
