"""A built backbone that is a model of transformers, and the differences between architectures."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from safetensors import SafetensorError
from sentbed import ModelError
from sentbed.protocols import (
    Backbone,
    BuildContext,
    BuiltBackbone,
    Module,
)

from sentbed_backbones._torch.interventions import BuiltIntervention, build_intervention
from sentbed_backbones._torch.language_head import output_embedding
from sentbed_backbones._torch.pooler_states import (
    EmptyTemplate,
    PoolerStates,
    TemplateDenoising,
)
from sentbed_backbones._torch.quiet_transformers import quiet
from sentbed_backbones._torch.token_states import base_of
from sentbed_backbones._torch.tokenizer import BulkTokenizer
from sentbed_backbones._torch.tokenizer_loading import spacing_of_placeholder
from sentbed_backbones._torch.weight_dtypes import DTYPES, cast
from sentbed_backbones.hub_models import fetch
from sentbed_backbones.model_file_checks import ADAPTER_DIRECTORY, BASE_FILE, is_local
from sentbed_backbones.transformer_base import (
    TEMPLATE_ALONE,
    Transformer,
    problem_of_layers,
)


class Family:
    """What differs between architectures of transformers; the defaults suit most architectures."""

    kind: ClassVar[str]
    """Name of the backbone."""
    shares_prefix: bool = False
    """Whether a prefix that all texts share is computed once when encoding."""

    def __init__(
        self,
        parameters: Any,
        needs: frozenset[str],
        template: tuple[str, str] | None = None,
    ) -> None:
        self.parameters = parameters
        self.needs = needs
        self.intervention: BuiltIntervention | None = None
        """The intervention of the built backbone, which `BuiltTransformer` sets."""
        self.template = template
        """Text before and after the sentence; see `BuildContext.template`."""

    def tokenizer(self, context: BuildContext) -> Any:
        """Train a tokenizer on the recipe's texts, for a model with random weights."""
        raise NotImplementedError

    def config(self, tokenizer: Any) -> Any:
        """Return the configuration of a model with random weights of the recipe's size."""
        raise NotImplementedError

    def configure(self, model: Any) -> None:
        """Apply the recipe's settings that need the built model, and check them.

        Raises:
            ModelError: if the model does not compute what the recipe says.
        """

    @property
    def reads_layers(self) -> bool:
        """Whether layers other than the last are read."""
        return "layers" in self.needs or self.parameters.layer_numbers != (-1,)

    @property
    def denoises(self) -> bool:
        """Whether the pooler subtracts the empty template's state from the mask token's state."""
        return self.template is not None and bool(self.needs & set(TEMPLATE_ALONE))

    @property
    def protocol(self) -> dict[str, Any]:
        """Entries for the protocol of each score, which records how vectors are computed from texts."""
        return {}

    def states(self, model: Any) -> Module:
        """Return the forward pass as `module(input_ids, attention_mask | None) -> TokenStates`.

        `TokenStates.layers` is set if layers other than the last are read.
        """
        raise NotImplementedError

    def first_position(self, model: Any) -> int:
        """Return the position of a text's first token, for a model that takes positions.

        Raises:
            ModelError: if the model takes no positions.
        """
        raise NotImplementedError

    def depth(self, model: Any) -> int | None:
        """Return the number of blocks after which the forward pass can stop; None if all blocks must run."""
        return None

    def encoding(self, states: Any) -> Module:
        """Return the module for encoding that wraps the forward pass `states`, or `states` itself."""
        return states

    def loader(self) -> Any:
        """Return the auto class of transformers that loads only what the pooler needs."""
        return transformers.AutoModel

    def head_loader(self) -> Any:
        """Return the auto class that also loads the language-modelling head; None if there is no such class."""
        return None

    def is_left_out(self, key: str) -> bool:
        """Whether the weight `key`, which the files have and the model lacks, is left out on purpose."""
        return False

    def fill_new_head(self, model: Any, missing: list[str]) -> list[str]:
        """Fill weights of a new head that the files lack, and return the names of the other missing weights."""
        return missing

    def advice(self, missing: Sequence[str]) -> str:
        """Return advice for the user about weights that are missing from the files."""
        return "fetch the model again"

    def max_length(self, model: Any) -> int:
        """Return the largest number of tokens in an input."""
        return int(model.config.max_position_embeddings)

    def width(self, config: Any) -> int:
        """Return the width of a token state."""
        return int(config.hidden_size)


class BuiltTransformer(BuiltBackbone):
    """A built backbone: a tokenizer and a model of transformers."""

    def __init__(
        self,
        parameters: Transformer,
        family: Family,
        model: Any,
        tokenizer: Any,
        origin: Mapping[str, Any],
        base: Mapping[str, str] | None = None,
    ) -> None:
        self.parameters, self.family = parameters, family
        self.model = model
        self.base = base
        """Hashes of the weight files of the recipe's `model`; None if the weights are from elsewhere."""

        self.tokenizer: BulkTokenizer = BulkTokenizer(
            tokenizer,
            parameters.placeholder,
            int(model.config.vocab_size),
            hides="span" in family.needs,
        )

        family.intervention = build_intervention(
            parameters.intervention, self.tokenizer.placeholder_id
        )
        self.origin = origin
        self.width = family.width(model.config)
        self.max_length = family.max_length(base_of(model))
        self.shares_prefix = family.shares_prefix

        self.dispatched = (
            hasattr(base_of(model), "hf_device_map")
            and parameters.device_map is not None
        )
        """Whether accelerate has already placed the weights on their devices."""

        stored_types = (parameters.quantization, parameters.dtype)
        self.precision: str | None = None
        """The precision of encoding, whatever the runtime's is; None if the runtime's precision is used."""
        if stored_types != (None, "fp32"):
            self.precision = " ".join(filter(None, stored_types))

        self.module = self._pooler_states(family.states(model))

    def _pooler_states(self, states: Module) -> Module:
        """Return a module that runs the forward pass `states` and returns what the pooler reads.

        Raises:
            ModelError: if the model lacks a layer, or if the tokenizer lacks the mask token.
        """
        family = self.family
        needs = family.needs
        numbers = self._counted_layers()
        mask_id: int | None = None
        if "mask-token" in needs:
            tokenizer = self.tokenizer.original
            if tokenizer.mask_token is None:
                raise ModelError(
                    "the pooler reads a mask token, and the tokenizer has none; take another model"
                )

            mask_id = int(tokenizer.mask_token_id)

        hides = "span" in needs
        if not family.reads_layers and mask_id is None and not hides:
            return states

        read = PoolerStates(states, numbers, "layers" in needs, mask_id, hides)
        if not family.denoises:
            return read

        assert family.template is not None
        template = EmptyTemplate.of(family.template, self.tokenizer.original)
        first = 0
        if "template-alone-from-0" not in needs:
            first = family.first_position(self.model)

        return TemplateDenoising(read, template, first)

    def _counted_layers(self) -> tuple[int, ...]:
        """Return the layers to read, numbered from 0 (embeddings); (-1,) is the last layer alone.

        Raises:
            ModelError: if the model lacks one of them.
        """
        count = int(self.model.config.num_hidden_layers) + 1
        numbers: tuple[int, ...] = self.parameters.layer_numbers
        problem = problem_of_layers(numbers, count - 1)
        if problem is not None:
            raise ModelError(problem)

        if numbers == (-1,):
            return numbers
        # A pass that ends early has no last layer from which to count backwards.
        return tuple(number % count for number in numbers)

    def inference(
        self,
        module: Module,
        dtype: torch.dtype,
        traceable: bool = False,
    ) -> Module:
        """Return the module for encoding.

        It is a copy in `dtype` with the adapter merged. If the weights are in 4 bits, bf16 or fp16, or
        distributed over devices, it is no copy, since that would need the memory that they save.
        """
        model = self.model
        if self.precision is None and not self.dispatched:
            if has_adapter(model):
                from sentbed_backbones._torch.adaptation import merged_copy

                model = merged_copy(model, torch.float32)

            if model is self.model:
                model = copy.deepcopy(model)

            model = cast(model, dtype).requires_grad_(False)

        states = self.family.states(model)
        if not traceable:
            states = self.family.encoding(states)

        return self._pooler_states(states).eval()

    def output_embedding(self) -> NDArray[np.float32]:
        """Return the last matrix of the head, `(tokens, width)`, without the row of a placeholder.

        Raises:
            ModelError: if the backbone has no head, or the files of the recipe's `model` lack its weights.
        """
        loader, parameters = self.family.head_loader(), self.parameters
        if loader is None:
            raise ModelError(
                f"the backbone `{parameters.name}` has no language-modelling head; use a causal one, such as "
                "`opt`"
            )

        model = base_of(self.model)
        weight = output_embedding(
            model, loader, self._files, parameters.trust_remote_code
        )
        values: NDArray[np.float32] = weight.detach().float().cpu().numpy()
        placeholder_id = self.tokenizer.placeholder_id
        if placeholder_id is None:
            return values

        return np.delete(values, placeholder_id, axis=0)

    def _files(self) -> Path | None:
        """Return the directory of the recipe's `model`; it has the head's weights, which a saved encoder lacks.

        None if the weights are random.
        """
        if self.weights_directory is not None:
            return self.weights_directory
        if self.parameters.model is None or self.parameters.init != "pretrained":
            return None

        return fetch(self.parameters.model, self.parameters.revision).directory

    def save(self, directory: Path) -> None:
        """Write weights, configuration and tokenizer in the format of transformers.

        If a pretrained model has an adapter or is in 4 bits, its base weights are unchanged, and available from
        the recipe's `model`. Only their hashes are then written, and the adapter if there is one.
        """
        try:
            with quiet():
                self.tokenizer.save(directory)
                self._save_weights(directory)
        except SafetensorError as error:
            # safetensors wraps the system's error. As an `OSError`, a full disk is not mistaken for a bug.
            raise OSError(str(error)) from error

    def _save_weights(self, directory: Path) -> None:
        """Write the adapter, if there is one, and the other weights or, if they are unchanged, their hashes."""
        adapted = has_adapter(self.model)
        is_unchanged = adapted or self.parameters.quantization is not None
        if self.base is not None and is_unchanged:
            content = json.dumps({"sha256": dict(self.base)}, indent=2)
            (directory / BASE_FILE).write_text(content + "\n", "utf-8")
        else:
            plain = self.model
            if adapted:
                plain = copy.deepcopy(plain).unload()

            plain.save_pretrained(directory)

        if adapted:
            from sentbed_backbones._torch.adaptation import save_adapter

            hub = self.parameters.model
            if hub is not None and is_local(hub):
                hub = None

            save_adapter(self.model, directory / ADAPTER_DIRECTORY, hub)

    @property
    def protocol(self) -> dict[str, Any]:
        """Entries for the protocol of each score.

        They are the entries of the family, the intervention, the precision if it is not the runtime's, and the
        layers if others than the last are read.
        """
        protocol = dict(self.family.protocol)
        if self.precision is not None:
            protocol["precision"] = self.precision

        layers = self.parameters.layer_numbers
        intervention: Any = self.parameters.intervention
        if intervention is not None:
            settings = {"use": intervention.name, **attrs.asdict(intervention)}
            placeholder = intervention.placeholder
            if placeholder is not None:
                spacing = spacing_of_placeholder(self.tokenizer.original, placeholder)
                settings["placeholder_spacing"] = spacing

            protocol["intervention"] = settings

        if layers != (-1,):
            protocol["layers"] = list(layers)

        return protocol

    def merged(self) -> tuple[Backbone, BuiltTransformer]:
        """Return an equivalent backbone without adapter and quantisation: component and built backbone."""
        plain: Any = self.parameters.plain()
        model = self.model
        if has_adapter(model) or self.parameters.quantization is not None:
            from sentbed_backbones._torch.adaptation import merged_copy

            model = merged_copy(model, DTYPES[plain.dtype])

        origin = dict(self.origin)
        origin.pop("sha256", None)
        origin["merged"] = True
        family = copy.copy(self.family)
        family.parameters = plain
        tokenizer = self.tokenizer.original
        return plain, BuiltTransformer(plain, family, model, tokenizer, origin)


def has_adapter(model: Any) -> bool:
    """Whether a model has an adapter of peft."""
    return hasattr(model, "peft_config")
