"""Checks for prompts that the formats of other libraries do not support."""

from __future__ import annotations

from sentbed import Encoder, ModelError
from sentbed.errors import listed
from sentbed.tools import INSTRUCTION


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
    if prompt.layers:
        raise ModelError(
            f"the prompt chooses the layers {list(prompt.layers)}, of which {target} knows nothing; give "
            "them to the backbone, as its `layers`"
        )


def require_no_task_prompts(encoder: Encoder, target: str) -> None:
    """Raise `ModelError` if an encoder has prompts for tasks: the format has one prompt for all texts."""
    if encoder.recipe.task_prompts:
        raise ModelError(
            f"the encoder has prompts for {listed(encoder.recipe.task_prompts)}, and {target} has one prompt "
            "for all texts; take `task_prompts` out, and put them before the texts yourself"
        )


def prompts_before_texts(encoder: Encoder) -> dict[str, str]:
    """Return the prompts for tasks as texts that precede a sentence, by task.

    Raises:
        ModelError: if a prompt is more than a text before the sentence, if it has a placeholder for an
            instruction, or if the encoder also has a prompt for all texts.
    """
    recipe = encoder.recipe
    task_prompts = recipe.task_prompts or {}
    if task_prompts and recipe.resolved_prompt is not None:
        raise ModelError(
            f"the encoder has a `prompt`, and other prompts for {listed(task_prompts)}; "
            "sentence-transformers would put both before a text: take one of them out"
        )

    prefixes = {}
    for key, variant in zip(task_prompts, recipe.task_recipes, strict=True):
        prompt = variant.resolved_prompt
        if prompt is None:
            continue
        template = prompt.template
        if (
            template.suffix
            or template.between is not None
            or prompt.normalizer != "none"
        ):
            raise ModelError(
                f"the prompt of `{key}`, {str(template)!r}, is more than a text before the sentence, and "
                "sentence-transformers has no other; take it out of `task_prompts`"
            )
        if INSTRUCTION in template.prefix:
            raise ModelError(
                f"the prompt of `{key}` has `{INSTRUCTION}`, which sentence-transformers does not fill in; "
                "give each task a prompt that spells it out"
            )
        # White space at the beginning of a filled template is removed.
        prefixes[key] = template.prefix.lstrip()
    return prefixes
