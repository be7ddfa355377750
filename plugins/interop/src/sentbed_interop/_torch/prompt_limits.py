"""Prompts that a format with one plain pass over a text cannot have."""

from __future__ import annotations

from sentbed import Encoder, ModelError


def require_plain_prompt(encoder: Encoder, target: str) -> None:
    """Raise `ModelError` for several prompts, layers of a prompt, or a template with the sentence twice."""
    recipe = encoder.recipe
    if len(recipe.prompts) > 1:
        raise ModelError(
            f"the encoder has {len(recipe.prompts)} prompts, and {target} reads a text once; use it in "
            "sentbed, or give it one `prompt`"
        )
    prompt = recipe.resolved_prompt
    if prompt is not None and prompt.template.between is not None:
        raise ModelError(
            f"the template {str(prompt.template)!r} has the sentence twice, and {target} has no way to hide "
            "the first one from the pooler; use it in sentbed, or write `{text}` once"
        )
    if prompt is not None and prompt.layers:
        raise ModelError(
            f"the prompt chooses the layers {list(prompt.layers)}, of which {target} knows nothing; give "
            "them to the backbone, as its `layers`"
        )
