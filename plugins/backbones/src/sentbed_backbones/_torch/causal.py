"""Causal language models: LLaMA, and every architecture that transformers knows as one."""

from __future__ import annotations

from typing import Any

import transformers
from sentbed import ModelError
from sentbed.protocols import BuildContext, Module

from sentbed_backbones._torch.built_transformer import Family
from sentbed_backbones._torch.shared_prefix import SharedPrefixStates
from sentbed_backbones._torch.token_states import CausalStates, base_of, blocks_of
from sentbed_backbones._torch.train_tokenizer import train_byte_bpe
from sentbed_backbones.attention_direction import attends_both_ways

MASKED_BY_CONFIGURATION = frozenset(
    {
        "gemma2",
        "gemma3_text",
        "gpt2",
        "gpt_neox",
        "gptj",
        "llama",
        "mistral",
        "mixtral",
        "opt",
        "qwen2",
        "qwen3",
    }
)
"""Model types whose code in transformers masks by the setting `is_causal`, and keeps keys and values alone."""


class CausalFamily(Family):
    """Causal language models; see `sentbed_backbones.causal.Causal`."""

    kind = "causal"

    both_ways = False
    """Whether the attention of the built model is bidirectional."""

    def tokenizer(self, context: BuildContext) -> Any:
        """Train a byte-level BPE with LLaMA's special tokens."""
        specials = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
        return train_byte_bpe(
            context.texts(), self.parameters.vocab_size, specials, "<s> $A"
        )

    def config(self, tokenizer: Any) -> Any:
        """Return the configuration of a LLaMA of the recipe's size."""
        layers, width, heads, inner = self.parameters.sizes[self.parameters.size]
        return transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=inner,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )

    def configure(self, model: Any) -> None:
        """Let the model attend in the direction that the recipe says.

        Raises:
            ModelError: if the model cannot attend as the recipe says, or its attention does not suit the
                pooler.
        """
        config = base_of(model).config
        attention = self.parameters.attention
        self.both_ways = attends_both_ways(config.to_dict())
        if attention == "causal" and self.both_ways:
            raise ModelError(
                f"a `{config.model_type}` attends in both directions with this configuration, and the backbone "
                'says `attention = "causal"`; take `attention` out, or choose another model'
            )

        if attention == "bidirectional" and not self.both_ways:
            if config.model_type not in MASKED_BY_CONFIGURATION:
                raise ModelError(
                    f"a `{config.model_type}` has no bidirectional attention; take out "
                    '`attention = "bidirectional"`, or choose another architecture, such as LLaMA, Mistral, '
                    "Qwen2 or OPT"
                )

            config.is_causal = False
            self.both_ways = True

        if self.both_ways and "causal" in self.needs:
            raise ModelError(
                "the pooler reads the state from which the next word is predicted, and a "
                f"`{config.model_type}` attends in both directions; choose another pooler, such as `mean`, or "
                "another model"
            )

        self.shares_prefix = (
            self.parameters.shares_prefix
            and not self.both_ways
            and config.model_type in MASKED_BY_CONFIGURATION
            and not _rotates_by_length(model)
        )

    @property
    def protocol(self) -> dict[str, Any]:
        """The direction of attention if it is not causal."""
        if not self.both_ways:
            return {}

        return {"attention": "bidirectional"}

    def states(self, model: Any) -> Module:
        """Return the forward pass of transformers, up to the last layer that is read."""
        depth = self.depth(model)
        if depth is not None:
            for block in blocks_of(model)[depth:]:
                # Blocks that are not run get no gradient; an optimiser must not apply weight decay to them.
                block.requires_grad_(False)

        return CausalStates(model, self.reads_layers, depth, self.intervention)

    def depth(self, model: Any) -> int | None:
        """Return the number of blocks after which the forward pass can stop.

        None if it must run all blocks and the final norm.
        """
        count = int(model.config.num_hidden_layers) + 1
        numbers = self.parameters.layer_numbers
        # Numbers of layers that the model lacks are reported elsewhere (`problem_of_layers`).
        are_layers = all(-count <= number < count for number in numbers)
        if "layers" in self.needs or not are_layers:
            return None

        # Layer 0 is the embedding, layer k the output of block k; negative numbers count from the last layer.
        last: int = max(number % count for number in numbers)
        if last == count - 1:
            return None

        return last

    def head_loader(self) -> Any:
        """Return the class of causal language models."""
        return transformers.AutoModelForCausalLM

    def encoding(self, states: Any) -> Module:
        """Return a module that computes a shared prefix once, if prefixes are shared."""
        if self.shares_prefix:
            return SharedPrefixStates(states)

        return states


def _rotates_by_length(model: Any) -> bool:
    """Whether the rotations of a prefix depend on the longest text of the batch, as with LongRoPE."""
    return any(
        getattr(part, "rope_type", None) == "longrope" for part in model.modules()
    )
