"""Prompts in the formats of other libraries: what they support, and the length of inputs with a prompt."""

from __future__ import annotations

from sentbed import Encoder, ModelError
from sentbed.errors import listed
from sentbed.protocols import INSTRUCTION, MASK, ResolvedPrompt

DEFAULT = "text"
"""Name of the prompt of texts that are of no task."""


def require_plain_prompt(encoder: Encoder, target: str) -> None:
    """Raise `ModelError` if there are several prompts, or if one chooses layers or repeats the sentence."""
    recipe = encoder.recipe
    if len(recipe.prompts) > 1:
        raise ModelError(
            f"the encoder has {len(recipe.prompts)} prompts, and {target} reads a text once; use it in "
            "sentbed, or give it one `prompt`"
        )

    prompt = recipe.resolved_prompt
    if prompt is None:
        return
    if prompt.template.between is not None:
        raise ModelError(
            f"the template {str(prompt.template)!r} has the sentence twice, and {target} has no way to hide "
            "the first from the pooler; use it in sentbed, or write `{text}` once"
        )


def require_no_task_prompts(encoder: Encoder) -> None:
    """Raise `ModelError` if an encoder has prompts for tasks: a graph has one prompt for all texts."""
    if encoder.recipe.task_prompts:
        raise ModelError(
            f"the encoder has prompts for {listed(encoder.recipe.task_prompts)}, and the graph's tokenizer has "
            "one prompt for all texts; take `task_prompts` out, and put them before the texts yourself"
        )


def prompts_before_texts(encoder: Encoder) -> dict[str, str]:
    """Return the texts that precede a sentence, by task. Texts of no task have the key `DEFAULT`, if any.

    Raises:
        ModelError: if a prompt is more than a text before the sentence.
    """
    recipe = encoder.recipe
    prefixes = {}
    if recipe.resolved_prompt is not None:
        prefix = _text_before(recipe.resolved_prompt)
        # In sentence-transformers, queries and documents do not get the default prompt.
        prefixes = dict.fromkeys((DEFAULT, "query", "document"), prefix)
    for task, prompt in (recipe.task_prompts or {}).items():
        resolved = recipe.resolved(prompt)
        prefixes[task] = ""
        if resolved is not None:
            prefixes[task] = _text_before(resolved)
    return prefixes


def _text_before(prompt: ResolvedPrompt) -> str:
    """Return a prompt that is a text before the sentence. Raises `ModelError` if it is more than that."""
    template = prompt.template
    prefix = template.prefix
    if not prompt.is_prefix:
        raise ModelError(
            f"the prompt {str(template)!r} is more than a text before the sentence, and sentence-transformers "
            "has no other; train with such a prompt, or use the encoder in sentbed"
        )
    if MASK in prefix or INSTRUCTION in prefix:
        raise ModelError(
            f"the prompt {str(template)!r} has a placeholder, which sentence-transformers does not fill in; "
            "give each task a prompt that spells it out"
        )
    # White space at the beginning of a filled template is removed.
    return prefix.lstrip()


def longest_input(encoder: Encoder) -> int:
    """Return the number of tokens of the longest input: a text of `max_length` tokens and the prompt."""
    around = 0
    if encoder.recipe.resolved_prompt is not None:
        around = int(encoder.tokenizer().encode([""], 1).lengths[0])
    return min(encoder.recipe.max_length + around, encoder.backbone.max_length)
