"""An intervention in a forward pass: what it is given of a batch, and where in a model it is called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

import attrs
import torch
from sentbed import ModelError, PluginError
from sentbed.helpers import full_name
from sentbed.protocols import BlockStates, Intervention
from torch import Tensor

Place: TypeAlias = tuple[str, int]
"""Point and block; see `sentbed.protocols.Intervention.places`."""
Batch: TypeAlias = tuple[Tensor, Tensor | None]
"""Token ids and mask, each `(batch, length)`."""
ChangeStates: TypeAlias = Callable[[Place, Tensor], Tensor]
"""Function of a place and the states there, `(batch, length, width)`; returns the states to use instead."""

INPUT, HEADS = "block-input", "attention-heads"

PROJECTIONS = ("o_proj", "out_proj", "c_proj", "dense", "wo")
"""Names that architectures give to the output projection of the attention heads."""


class ReachedError(Exception):
    """Raised to end a pass early, once everything for which it was run has been recorded."""


@attrs.frozen(eq=False)
class BuiltIntervention:
    """The intervention of a built backbone."""

    component: Intervention
    function: Callable[[BlockStates], Tensor]
    places: frozenset[Place]
    placeholder_id: int | None

    def function_for(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        auxiliary: Batch | None,
        run: Callable[[Tensor, Tensor | None, ChangeStates], object],
    ) -> ChangeStates:
        """Return the function that changes the states of these rows.

        `auxiliary` has the auxiliary prompt of each row: the same text in a second prompt, whose states an
        intervention may use. `run(input_ids, attention_mask, function)` runs a pass in which `function` may
        change states.

        Raises:
            ModelError: if the intervention needs auxiliary prompts and `auxiliary` is None.
        """
        needs_auxiliary = self.component.auxiliary is not None
        if needs_auxiliary and auxiliary is None:
            raise ModelError(
                f"the intervention `{self.component.name}` needs an auxiliary prompt for each text, which "
                "neither training nor this runtime gives; encode with `cpu` or `cuda`"
            )

        auxiliary_states: dict[Place, Tensor] = {}
        if auxiliary is not None:
            auxiliary_states = self._last_states(auxiliary, run)

        last = last_tokens(input_ids, attention_mask)
        placeholder = None
        if self.placeholder_id is not None:
            # The first placeholder is the template's; the text behind it may contain the same token.
            placeholder = (input_ids == self.placeholder_id).int().argmax(1)

        def act(place: Place, states: Tensor) -> Tensor:
            if place not in self.places:
                return states

            seen = BlockStates(
                *place,
                states,
                input_ids,
                attention_mask,
                last,
                placeholder,
                auxiliary_states.get(place),
            )
            changed = self.function(seen)
            if changed.shape != states.shape:
                raise PluginError(
                    f"{full_name(self.component)} gives {tuple(changed.shape)} for states "
                    f"{tuple(states.shape)}, expected the same shape"
                )

            return changed.to(states.dtype)

        return act

    def _last_states(
        self,
        batch: Batch,
        run: Callable[[Tensor, Tensor | None, ChangeStates], object],
    ) -> dict[Place, Tensor]:
        """Return the states of each row's last token at all places, `(batch, width)`.

        The pass `run` ends after the last place.
        """
        last = last_tokens(*batch)
        rows = torch.arange(len(last), device=last.device)
        last_states: dict[Place, Tensor] = {}

        def record(place: Place, states: Tensor) -> Tensor:
            if place in self.places:
                last_states[place] = states[rows, last]
            if len(last_states) == len(self.places):
                raise ReachedError

            return states

        with suppress(ReachedError):
            run(*batch, record)

        return last_states


def build_intervention(
    intervention: Intervention | None, placeholder_id: int | None
) -> BuiltIntervention | None:
    """Return an intervention as it acts in a built backbone; None if `intervention` is None.

    `placeholder_id` is the id of its placeholder in the tokenizer; None if it has no placeholder.
    """
    if intervention is None:
        return None

    function = intervention.build()
    places = frozenset(intervention.places)
    return BuiltIntervention(intervention, function, places, placeholder_id)


def last_tokens(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Return the index of the last token of each row, `(batch,)`, whichever side is padded."""
    rows, length = input_ids.shape
    if attention_mask is None:
        return torch.full((rows,), length - 1, device=input_ids.device)

    return (attention_mask * torch.arange(length, device=input_ids.device)).argmax(1)


@contextmanager
def hooked(
    blocks: Any,
    places: Collection[Place],
    function: ChangeStates,
) -> Iterator[None]:
    """Let `function` change the states at these places of a model's blocks, within a `with` statement."""

    with ExitStack() as hooks:
        for place in places:
            point, block = place
            module = module_at(blocks[block], point)
            hook = partial(with_changed_input, partial(function, place))
            handle = module.register_forward_pre_hook(hook, with_kwargs=True)
            hooks.enter_context(handle)

        yield


def with_changed_input(
    change: Callable[[Tensor], Tensor],
    _: Any,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    """Return the arguments of a module's forward pass with `change` applied to its input states."""
    if arguments:
        return (change(arguments[0]), *arguments[1:]), named

    return arguments, {**named, "hidden_states": change(named["hidden_states"])}


def module_at(block: Any, point: str) -> Any:
    """Return the module of a block whose input is the states at `point`.

    Raises:
        ModelError: if the block does not have exactly one output projection of attention heads.
    """
    if point == INPUT:
        return block

    projections = []
    for name, module in block.named_modules():
        is_of_attention = "attn" in name or "attention" in name
        if is_of_attention and name.rpartition(".")[2] in PROJECTIONS:
            projections.append(module)

    if len(projections) != 1:
        raise ModelError(
            f"`{type(block).__name__}` has {len(projections)} projections of attention heads "
            f"(`{'`, `'.join(PROJECTIONS)}`), expected one, to intervene at `{HEADS}`; choose another model, "
            f"or an intervention at `{INPUT}`"
        )

    return projections[0]
